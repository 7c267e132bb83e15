// Declares library functions of which only the name is known: any arguments, a status back.
// By reference, so that no argument is promoted or converted: a call to a stand-in must not look like a cast.
#pragma once
#include <library_types.h>

#define OPSCANNER_FUNCTION(status, name) \
  template <class... Arguments>          \
  status name(const Arguments&... arguments);
