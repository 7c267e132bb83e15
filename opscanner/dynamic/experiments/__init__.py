"""Small models on generated data, and the published experiments made with them."""
