/* backstay for C: the same verbs as in C++ (without rollback()), with codes instead of exceptions.
 *
 *   backstay_session* run = NULL;
 *   backstay_error error;
 *   if (backstay_open_world(argc, argv, NULL, &run, &error)) return complain(&error);
 *   backstay_region u = {.name = "u", .type = BACKSTAY_TYPE_OF(*data), .ndim = 2, .shape = shape, .data = data};
 *   backstay_region s = {.name = "step", .type = BACKSTAY_TYPE_OF(step), .data = &step};
 *   backstay_protect(run, &u, &error);
 *   backstay_protect(run, &s, &error);
 *   for (backstay_resume(run, NULL, &error); step < steps; ++step) {
 *     backstay_checkpoint(run, NULL, &error);
 *     advance(data);
 *   }
 *   backstay_close(run);
 *
 * Every call that can fail returns a backstay_code, BACKSTAY_OK (0) if all is well, and then has filled `error`: a
 * sentence with what, where and what to do. `error` is the caller's and may be NULL. After a failed call the other
 * arguments for results are as they were. No C++ exception comes out of these calls, and none may come out of a
 * callback. Texts are UTF-8 and end with a zero byte. What a call is given by pointer may be freed when it returns,
 * except the protected memory itself and the `user` pointers.
 *
 * Collective, like in C++: the backstay_open_... calls (but alone), checkpoint, checkpoint_now, resume, wait, verify,
 * prune and close. One thread at a time may use a session. To open one on a communicator: backstay_mpi.h. */
#ifndef BACKSTAY_BACKSTAY_H
#define BACKSTAY_BACKSTAY_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Marks what the shared library gives to programs. */
#define BACKSTAY_EXPORT __attribute__((visibility("default")))

/* ---- codes and errors ---------------------------------------------------------------------------------------- */

/** What kind of thing went wrong: backstay::Code. New numbers are added at the end. */
typedef enum backstay_code {
  BACKSTAY_OK = 0,
  BACKSTAY_INVALID_ARGUMENT = 1, /**< a call that can never work: a name used twice, a shape that does not fit */
  BACKSTAY_UNKNOWN_OPTION = 2,   /**< an option that does not exist; the message names the nearest real one */
  BACKSTAY_NOT_FOUND = 3,        /**< a file, region or line that is not there */
  BACKSTAY_CORRUPT = 4,          /**< bytes that are there but are not the bytes that were written */
  BACKSTAY_VERSION_MISMATCH = 5, /**< written in a format version that this build does not read */
  BACKSTAY_MISMATCH = 6,         /**< ranks, types or shapes that differ from what was saved or from other ranks */
  BACKSTAY_IO = 7,               /**< the storage refused: the message holds the system's reason */
  BACKSTAY_NO_SPACE = 8,         /**< the storage is full */
  BACKSTAY_PERMISSION = 9,       /**< the storage is there but may not be written */
  BACKSTAY_LOCKED = 10,          /**< another running job uses the same checkpoint directory */
  BACKSTAY_COMM = 11,            /**< talking to another rank failed */
  BACKSTAY_TIMEOUT = 12,         /**< another rank, file or thread did not answer in time */
  BACKSTAY_LIMIT = 13,           /**< a limit on memory would be exceeded */
  BACKSTAY_USER = 14,            /**< a callback of the user's failed */
  BACKSTAY_INTERNAL = 15,        /**< a defect of backstay: please report it */
  BACKSTAY_RANK_LOST = 16        /**< a rank was lost, and nobody could take its place: start the job again */
} backstay_code;

/** Why a call failed. A sentence that is longer than the message ends with "...". */
typedef struct backstay_error {
  int code; /**< a backstay_code; BACKSTAY_OK after a call that worked */
  char message[1024];
} backstay_error;

/** "0.1.0". */
BACKSTAY_EXPORT const char* backstay_version(void);

/* ---- open and close ------------------------------------------------------------------------------------------ */

typedef struct backstay_session backstay_session;

/** In all open calls, `options` is a list of texts "name=value" that ends with NULL, or NULL for none. They win over
 *  BACKSTAY_* variables. On success `*session` is to be closed with backstay_close; otherwise it is NULL. */

/** This process alone: MPI is neither used nor initialised. */
BACKSTAY_EXPORT int backstay_open_alone(const char* const* options, backstay_session** session, backstay_error* error);

/** On all ranks of MPI_COMM_WORLD. Initialises MPI, with MPI_THREAD_MULTIPLE if it can be had, unless it was; then
 *  backstay_close finalises it, and so does this call where it fails on all ranks: MPI may not be used then, not even
 *  MPI_Abort (MPI_Finalized tells). `argv` may be NULL. In a build without MPI: this process alone. */
BACKSTAY_EXPORT int backstay_open_world(int argc, char** argv, const char* const* options, backstay_session** session,
                                        backstay_error* error);

/** Waits, bounded by the option `timeout`, for what is in flight, and frees the session. NULL is fine. Where the last
 *  checkpoint was not written in time a sentence says so, and the process ends with status 1 where it would with 0.
 * From within a callback it says that it does nothing; in the body of backstay_loop, which then ends with an error, it
 * closes. */
BACKSTAY_EXPORT void backstay_close(backstay_session* session);
/** The same; 1 where it does nothing, and the session stays open. What the Fortran module calls. */
BACKSTAY_EXPORT int backstay_close_fortran(backstay_session* session);

/** The program calls MPI past this library, as what is written in Fortran or for an interpreter: said before a session
 * is opened, init() beside spares is refused, and communicators that nobody saw made are looked for when a rank is
 * lost. What the Fortran module calls. */
BACKSTAY_EXPORT void backstay_calls_are_unseen(void);
/** Why something failed in a call that did not come here: backstay_loop says it where its body ends for that. What the
 *  Fortran module calls. */
BACKSTAY_EXPORT void backstay_keep_failure(const char* sentence);

BACKSTAY_EXPORT int backstay_rank(const backstay_session* session, int* rank, backstay_error* error);
BACKSTAY_EXPORT int backstay_size(const backstay_session* session, int* size, backstay_error* error);

/* ---- what is protected --------------------------------------------------------------------------------------- */

/** The kind of an element: backstay::Type::Kind. */
typedef enum backstay_kind {
  BACKSTAY_INTEGER = 0,          /**< two's complement, 1, 2, 4 or 8 bytes */
  BACKSTAY_UNSIGNED_INTEGER = 1, /**< 1, 2, 4 or 8 bytes */
  BACKSTAY_FLOATING = 2,         /**< IEEE, 2, 4 or 8 bytes; 16 is x87 extended in a 16-byte slot */
  BACKSTAY_COMPLEX = 3,          /**< two floats of half the size */
  BACKSTAY_BOOLEAN = 4,          /**< 1 byte, 0 or 1 */
  BACKSTAY_TEXT = 5,             /**< UTF-8 in a field of `size` bytes, filled up with zero bytes */
  BACKSTAY_OPAQUE = 6,           /**< `size` bytes that only the program understands */
  BACKSTAY_COMPOUND = 7          /**< a struct described by `members` */
} backstay_kind;

/** The type of one element, as it is described in the checkpoint file. */
typedef struct backstay_type {
  int kind;                              /**< a backstay_kind */
  size_t size;                           /**< bytes of one element in memory, padding included */
  const struct backstay_member* members; /**< BACKSTAY_COMPOUND only */
  size_t member_count;
} backstay_type;

/** A member of a struct. */
typedef struct backstay_member {
  const char* name;
  size_t offset; /**< offsetof(struct, member) */
  backstay_type type;
  int ndim; /**< of a member that is an array; 0 otherwise */
  const int64_t* shape;
} backstay_member;

#ifndef __cplusplus
/** BACKSTAY_TYPE_OF(x): the type of an arithmetic or complex element; opaque bytes for a struct. Name an element, as in
 *  BACKSTAY_TYPE_OF(u[0]) or BACKSTAY_TYPE_OF(*u): an array or a pointer does not compile. */
#define BACKSTAY_KIND_OF(x)                                              \
  _Generic((x),                                                          \
      _Bool: BACKSTAY_BOOLEAN,                                           \
      char: CHAR_MIN < 0 ? BACKSTAY_INTEGER : BACKSTAY_UNSIGNED_INTEGER, \
      signed char: BACKSTAY_INTEGER,                                     \
      short: BACKSTAY_INTEGER,                                           \
      int: BACKSTAY_INTEGER,                                             \
      long: BACKSTAY_INTEGER,                                            \
      long long: BACKSTAY_INTEGER,                                       \
      unsigned char: BACKSTAY_UNSIGNED_INTEGER,                          \
      unsigned short: BACKSTAY_UNSIGNED_INTEGER,                         \
      unsigned int: BACKSTAY_UNSIGNED_INTEGER,                           \
      unsigned long: BACKSTAY_UNSIGNED_INTEGER,                          \
      unsigned long long: BACKSTAY_UNSIGNED_INTEGER,                     \
      float: BACKSTAY_FLOATING,                                          \
      double: BACKSTAY_FLOATING,                                         \
      long double: BACKSTAY_FLOATING,                                    \
      float _Complex: BACKSTAY_COMPLEX,                                  \
      double _Complex: BACKSTAY_COMPLEX,                                 \
      long double _Complex: BACKSTAY_COMPLEX,                            \
      default: BACKSTAY_OPAQUE)
/** The size of an element; `5` is what compilers call the class of pointers, which arrays turn into. */
#define BACKSTAY_SIZE_OF(x)                                                                                        \
  (sizeof(x) + 0 * sizeof(struct {                                                                                 \
                 _Static_assert(__builtin_classify_type(x) != 5,                                                   \
                                "BACKSTAY_TYPE_OF needs an element, not an array or a pointer: write u[0] or *u"); \
                 char unused;                                                                                      \
               }))
#define BACKSTAY_TYPE_OF(x) ((backstay_type){BACKSTAY_KIND_OF(x), BACKSTAY_SIZE_OF(x), NULL, 0})
#endif

/** Which part of something larger a region is; decides what a restart on other ranks may do with it. */
typedef enum backstay_placement {
  BACKSTAY_DEFAULT = 0,         /**< a scalar (ndim 0) is replicated, anything else rank-private */
  BACKSTAY_RANK_PRIVATE = 1,    /**< belongs to this rank; comes back only on the same number of ranks */
  BACKSTAY_REPLICATED = 2,      /**< the same on every rank; comes back on any number of ranks */
  BACKSTAY_BLOCK = 3,           /**< the box [lower, upper) of a global array; any number of ranks */
  BACKSTAY_DISTRIBUTED_LIST = 4 /**< a piece of a list whose order is rank order; its total is re-split */
} backstay_placement;

/** Called at each capture for memory that moves or changes size: stores where it is now and its `ndim` lengths.
 *  Anything but 0 means that it cannot; the checkpoint then fails. */
typedef int (*backstay_look)(void* user, void** data, int64_t* shape);
/** Called before elements are put back: makes room for `ndim` lengths and stores where. Anything but 0 refuses. */
typedef int (*backstay_resize)(void* user, const int64_t* shape, void** data);

/** A named piece of memory. What is not named in an initialiser is zero, and zero is the usual choice everywhere. */
typedef struct backstay_region {
  const char* name;  /**< '/' makes groups in the file */
  const char* units; /**< as in UDUNITS ("m s-1"), or NULL */
  backstay_type type;
  int ndim;               /**< 0 (a scalar) to 7 */
  const int64_t* shape;   /**< `ndim` lengths, slowest first; not used with `look` */
  const int64_t* strides; /**< in elements, none negative; NULL: dense, C order. Not with `look` */
  void* data;             /**< the first element; not used with `look` */
  int placement;          /**< a backstay_placement */
  const int64_t* global;  /**< BACKSTAY_BLOCK: the shape of the global array, `ndim` lengths */
  const int64_t* lower;   /**< BACKSTAY_BLOCK: first index, inclusive */
  const int64_t* upper;   /**< BACKSTAY_BLOCK: last index, exclusive; upper - lower is the shape of the region */
  backstay_look look;     /**< for memory that moves or changes size: both, or NULL both */
  backstay_resize resize;
  void* user; /**< the first argument of the two */
} backstay_region;

/** Adds a region. Its memory must stay valid until the session is closed or the region is unprotected. */
BACKSTAY_EXPORT int backstay_protect(backstay_session* session, const backstay_region* region, backstay_error* error);

/** The same for data that do not change from the first checkpoint on: they are written once at each level, and never
 *  again. What has changed in spite of that is put back as it was. */
BACKSTAY_EXPORT int backstay_protect_static(backstay_session* session, const backstay_region* region,
                                            backstay_error* error);

/** A text that ends with a zero byte, in a buffer of `capacity` bytes. It comes back only where it fits, and only on
 *  the same number of ranks. */
BACKSTAY_EXPORT int backstay_protect_text(backstay_session* session, const char* name, char* text, size_t capacity,
                                          backstay_error* error);

/** Where a save callback writes. Valid during the callback only. */
typedef struct backstay_stream backstay_stream;
/** Appends bytes. BACKSTAY_OK, BACKSTAY_INVALID_ARGUMENT for NULL, or BACKSTAY_LIMIT where there is no memory. */
BACKSTAY_EXPORT int backstay_write(backstay_stream* stream, const void* bytes, size_t size);

/** A region that only its owner can write and read. Anything but 0 from a callback is a failure (BACKSTAY_USER). */
typedef struct backstay_callbacks {
  int (*save)(void* user, backstay_stream* stream);
  int (*load)(void* user, const void* bytes, size_t size);
  /** May be NULL. Called instead of `load` on a restart with another number of ranks, with the bytes of all `count`
   *  old ranks, in rank order. */
  int (*redistribute)(void* user, size_t count, const void* const* bytes, const size_t* sizes, int rank, int size);
  void* user;
} backstay_callbacks;
BACKSTAY_EXPORT int backstay_protect_callbacks(backstay_session* session, const char* name,
                                               const backstay_callbacks* callbacks, backstay_error* error);

BACKSTAY_EXPORT int backstay_unprotect(backstay_session* session, const char* name, backstay_error* error);

/* ---- declared computations ----------------------------------------------------------------------------------- */

/** What a computation does to a region. */
typedef enum backstay_mode {
  BACKSTAY_READ = 0,
  BACKSTAY_WRITE = 1,      /**< all of the range, whatever it held */
  BACKSTAY_READ_WRITE = 2, /**< all of the range, after reading it */
  BACKSTAY_WRITE_SOME = 3  /**< some elements of the range, nobody says which */
} backstay_mode;

/** `region` and `mode` are enough where it is all of the region, element by element. */
typedef struct backstay_access {
  const char* region;
  int mode;                   /**< backstay_mode */
  int ndim;                   /**< of the arrays below; 0 without them */
  const int64_t* begin;       /**< first index of each dimension; NULL: all of the region */
  const int64_t* end;         /**< behind the last index */
  const int64_t* reach_below; /**< what is read around each element, as offsets: from here, 0 or less as a rule ... */
  const int64_t* reach_above; /**< ... to here, this one included; both NULL: itself */
} backstay_access;

/** Says what a computation reads and overwrites of protected regions: a loop, a routine, or all between. From the first
 *  declaration on that names a region, every use of that region between a checkpoint and the next follows a
 *  backstay_begin of a computation that declares it. The same declaration again gives the same computation. Every rank
 *  declares the same computations in the same order; ranges may differ. BACKSTAY_INVALID_ARGUMENT: a name in use with
 *  other accesses, or a range that the region cannot have; BACKSTAY_NOT_FOUND: a region that is not protected. */
BACKSTAY_EXPORT int backstay_declare(backstay_session* session, const char* name, const backstay_access* accesses,
                                     size_t count, int* computation, backstay_error* error);

/** The computation follows. A region that computations overwrite before they read it, after a checkpoint, is left out
 * of its line; resume leaves its memory as it is. The line waits until that is decided, at the next checkpoint at the
 *  latest; backstay_checkpoint_now does not. */
BACKSTAY_EXPORT int backstay_begin(backstay_session* session, int computation, backstay_error* error);
/** It has ended, as it does with the next call of backstay. */
BACKSTAY_EXPORT int backstay_end(backstay_session* session, backstay_error* error);

/* ---- checkpoint and resume ----------------------------------------------------------------------------------- */

/** What a call of checkpoint did: backstay::Outcome. The same on every rank, but BACKSTAY_FAILED. */
typedef enum backstay_outcome {
  BACKSTAY_NOT_DUE = 0, /**< nothing was due */
  BACKSTAY_TAKEN = 1,   /**< captured; the background makes it durable, or gives it up: backstay_status says why */
  BACKSTAY_SKIPPED = 2, /**< due, but an earlier one is still in flight and the policy is `skip` */
  BACKSTAY_FAILED = 3,  /**< MPI failed, or an earlier one did not settle within the option timeout */
  BACKSTAY_STOP = 4     /**< a signal asked the job to end, and a last checkpoint was taken (where it failed,
                             backstay_status says why): leave the loop */
} backstay_outcome;

/** Takes a checkpoint if one is due. Returns after the capture; no barrier. `outcome` may be NULL. */
BACKSTAY_EXPORT int backstay_checkpoint(backstay_session* session, int* outcome, backstay_error* error);
/** Takes one now; waits for staging memory if an earlier one is still in flight. `outcome` may be NULL. */
BACKSTAY_EXPORT int backstay_checkpoint_now(backstay_session* session, int* outcome, backstay_error* error);
/** The same two from a function that is none of the program's own: what the Fortran module calls. */
BACKSTAY_EXPORT int backstay_checkpoint_fortran(backstay_session* session, int* outcome, backstay_error* error);
BACKSTAY_EXPORT int backstay_checkpoint_now_fortran(backstay_session* session, int* outcome, backstay_error* error);

/** What resume found. The same on every rank. */
typedef struct backstay_resumed {
  int resumed;    /**< 0: no line at all, a fresh start */
  uint64_t line;  /**< the number of the line that was put back */
  char level[16]; /**< where it was */
  double seconds; /**< from the call until every rank has its data */
  int saved_ranks;
} backstay_resumed;
/** Puts back the newest whole line, if there is one. `resumed` may be NULL. */
BACKSTAY_EXPORT int backstay_resume(backstay_session* session, backstay_resumed* resumed, backstay_error* error);

/** In place of backstay_resume, by programs that declare all of their computations: the program runs from its beginning
 *  as it did, to the call of backstay_checkpoint at which the newest line was taken; there the data are put back, and
 * it goes on. So its loops, its calls and the local variables that it sets between computations are again what
 *  they were. What a computation sets must be a region that it declares, or go through backstay_result: another
 * variable (a static one, say) keeps its old value where the computation is skipped. On the way it skips the
 * computations, as backstay_replaying tells behind each backstay_begin, and is given what they resulted in by
 * backstay_result. After the declarations and before the first computation or backstay_result; inside the body of
 * backstay_loop, if there is one. BACKSTAY_MISMATCH: the line has no log of the way; and from backstay_begin,
 * backstay_checkpoint and backstay_result, where the program goes another way than it did. `resumed` may be NULL. */
BACKSTAY_EXPORT int backstay_replay(backstay_session* session, backstay_resumed* resumed, backstay_error* error);
/** The beginning of the program ends here: all of it runs again when the program is started again, so that what no
 *  computation changes after it is in no line. Between backstay_replay and the first checkpoint; without a replay
 * before backstay_resume. */
BACKSTAY_EXPORT int backstay_init_done(backstay_session* session, backstay_error* error);
/** From the next checkpoint on a line holds these regions and no others (but static ones), captured at once; `count` 0:
 *  what computations decide. A run that goes on from it and reads something else before it has overwritten it is
 * stopped; what no computation uses, or callbacks save, must be on the list, or no line is saved. The same list on
 * every rank; behind a rollback or a repair it is the one of before the loop until it is named again.
 * BACKSTAY_NOT_FOUND: one is not protected; BACKSTAY_INVALID_ARGUMENT: one is static, or the option place=best. */
BACKSTAY_EXPORT int backstay_save_only(backstay_session* session, const char* const* regions, size_t count,
                                       backstay_error* error);
/** Whether computations are skipped: 1 or 0. */
BACKSTAY_EXPORT int backstay_replaying(const backstay_session* session, int* replaying, backstay_error* error);
/** The `bytes` bytes at `value` decide on the way, and may be others the next time: results of computations and of
 *  reductions, clocks, random numbers. A replay gives back what they were; without one nothing happens. */
BACKSTAY_EXPORT int backstay_result(backstay_session* session, void* value, size_t bytes, backstay_error* error);

/** What backstay_loop runs: 0 when it is done. */
typedef int (*backstay_body)(void* user);
/** Runs `body(user)`, which begins with backstay_resume, and runs it again from its start when a rank was lost and the
 *  option spares is set: another process has taken its place then. After a loss, calls of backstay and MPI calls in
 *  backstay_comm() give an error (BACKSTAY_RANK_LOST): the body returns then, with any value, and takes the
 * communicator anew when it is run again. Returns when the body has returned on all ranks. BACKSTAY_USER: it returned
 * another value than 0 although no rank was lost; BACKSTAY_RANK_LOST: nobody could take the place. */
BACKSTAY_EXPORT int backstay_loop(backstay_session* session, backstay_body body, void* user, backstay_error* error);

/** Before backstay_loop: runs `phase(user)`, in which the program sets itself up with messages. With the option spares
 * what each rank receives in it is recorded and kept with other ranks, and who takes the place of a lost rank runs it
 * alone, its MPI calls answered from the log, while the others keep what they have: its results must not change after
 * it. It communicates in backstay_comm() alone, and in what it makes from it and frees. After a loss it returns, with
 * any value, and is run again. BACKSTAY_INVALID_ARGUMENT: a log cannot answer what it does; BACKSTAY_MISMATCH: it made
 * other calls than before. */
BACKSTAY_EXPORT int backstay_init(backstay_session* session, backstay_body phase, void* user, backstay_error* error);

/** Waits until everything captured is committed or given up. */
BACKSTAY_EXPORT int backstay_wait(backstay_session* session, backstay_error* error);

/* ---- looking after lines ------------------------------------------------------------------------------------- */

/** What verify found. The same on every rank. */
typedef struct backstay_verified {
  uint64_t lines;
  uint64_t segments;
  uint64_t damaged; /**< damaged files and segments */
} backstay_verified;
/** Hears a sentence for each damaged file or segment. The text is valid during the call only. */
typedef void (*backstay_hear)(void* user, const char* sentence);
/** Reads every byte of every line at every level and checks its CRC. Damage is no failure of the call: it is counted
 *  in `verified` and said to `hear`. Both may be NULL. */
BACKSTAY_EXPORT int backstay_verify(backstay_session* session, backstay_verified* verified, backstay_hear hear,
                                    void* user, backstay_error* error);

/** Removes all but the newest `keep` (1 or more) whole lines of every level. */
BACKSTAY_EXPORT int backstay_prune(backstay_session* session, int keep, backstay_error* error);

/** Whether a signal has asked the job to end: 1 or 0, the same on every rank at the same call of checkpoint. */
BACKSTAY_EXPORT int backstay_stopping(const backstay_session* session, int* stopping, backstay_error* error);

/** Counters since the session was opened, and the last error of the background, if any. This rank's own. */
typedef struct backstay_counters {
  uint64_t calls; /**< calls of checkpoint */
  uint64_t taken; /**< captures */
  uint64_t skipped;
  uint64_t committed;      /**< lines committed, each level counted */
  uint64_t failed;         /**< lines given up, each level counted */
  uint64_t in_flight;      /**< captured and not yet committed or given up */
  uint64_t newest_line;    /**< number of the newest committed line; 0: none */
  double blocked_seconds;  /**< time spent inside checkpoint, and in backstay_begin for a line that waits */
  uint64_t staging_bytes;  /**< staging memory held */
  char last_error[1024];   /**< empty: none */
  uint64_t left_out_bytes; /**< of regions that the newest checkpoint did not save, see backstay_begin */
} backstay_counters;
BACKSTAY_EXPORT int backstay_status(const backstay_session* session, backstay_counters* counters,
                                    backstay_error* error);

/* ---- options ------------------------------------------------------------------------------------------------- */

/** The table of options, in the order of docs/options.md. NULL for an index that is not below the count. */
BACKSTAY_EXPORT size_t backstay_option_count(void);
BACKSTAY_EXPORT const char* backstay_option_name(size_t index);
BACKSTAY_EXPORT const char* backstay_option_initial(size_t index);
BACKSTAY_EXPORT const char* backstay_option_meaning(size_t index);

#ifdef __cplusplus
}
#endif

#endif
