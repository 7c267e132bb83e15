"""TensorFlow: what runs its operators."""
