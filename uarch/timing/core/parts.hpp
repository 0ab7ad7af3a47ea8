#pragma once

#include <pybind11/pybind11.h>

namespace perfvec {

// Adds the submodule `parts`: parts of the timing model by themselves.
void bind_parts(pybind11::module_& module);

}  // namespace perfvec
