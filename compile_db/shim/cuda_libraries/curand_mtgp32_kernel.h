// Stands in where cuRAND's headers are missing: clang's CUDA wrapper includes this one always.
#pragma once
