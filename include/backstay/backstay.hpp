// backstay: makes a program on MPI survive the loss of a process, a node or the whole job.
//
//   backstay::Session run(argc, argv);
//   run.protect("step", step);
//   run.protect("u", u, backstay::block({nx, ny, nz}, lower, upper));
//   run.loop([&] {
//     for (run.resume(); step < steps; ++step) {
//       run.checkpoint();            // at the top: `step` and `u` belong together here
//       advance(u, run.comm());
//     }
//   });
#pragma once

#include "backstay/error.hpp"
#include "backstay/session.hpp"
#include "backstay/types.hpp"
