// The shared library has no code of its own: it is its modules.
#include "backstay/backstay.hpp"
