/* How a line is committed, and what a crash leaves of it: src/engine/line_writer.cpp, src/catalog/catalog.cpp and
 * docs/format.md ("Writing a line", "Reading a line"), step by step.
 *
 * Three ranks on two nodes: ranks 0 and 1 on the first, rank 2 on the second. Level `local` has a store on each node,
 * led by ranks 0 and 2; level `shared` has one, led by rank 0. Every line goes to the levels in LEVELS.
 *
 * Storage is asynchronous: what was not synced may survive a power cut or not, each name and each file on its own. A
 * kill ends all processes and leaves the storage as it is, synced or not. That one process alone dies needs no step of
 * its own: it is a rank that makes no further step until the job ends.
 *
 * An agreement needs all ranks. A rank may lose patience with it at any time (TIMEOUTS), after the others have got its
 * part or all parts: so some may know the outcome and others not.
 *
 * With STRICT a directory never has the manifest of another line, as format.md says. With PRUNE a job that was launched
 * again prunes to one line before it writes. Both need that a job first syncs what it finds, as one that was killed may
 * have left it unsynced (BUG_NO_OPEN_SYNC). SYNC_TAKEN, a sync of a directory before it gets its new name, would be
 * enough for the first.
 *
 * Each BUG_... takes one step out of the protocol; the model checker has to notice. */

#ifndef LINES
#define LINES 5 /* numbers of lines are 1 to LINES */
#endif
#ifndef KEEP
#define KEEP 2
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1
#endif
#ifndef ERRORS
#define ERRORS 0 /* operations of the storage that fail */
#endif
#ifndef LOSSES
#define LOSSES 0 /* crashes that take the directory of a node with them */
#endif
#ifndef LEVELS
#define LEVELS 3 /* 1: local, 2: shared, 3: both */
#endif

#ifdef PRUNE
#define KEPT 1
#else
#define KEPT KEEP
#endif

#define RANKS 3
#define ALL 7     /* ranks, as bits */
#define STORES 3  /* 0, 1: of the nodes; 2: shared */
#define SLOTS (KEEP + 3)
#define DAMAGED 7 /* in place of a line's number: bytes that are no line's, or a mixture */
#define NONE 9

#define bit_of(n) (1 << (n))
#define first_store(level) (2 * (level))
#define stores_end(level) (2 + (level))
#define parts_of(store) (store == 0 -> 3 : (store == 1 -> 4 : 7)) /* whose files lie there */
#define store_of(level, rank) (level == 1 -> 2 : (rank == 2 -> 1 : 0))
#define leads(rank, store) ((rank == 2 && store == 1) || (rank == 0 && store != 1))

typedef Directory {
  byte name;     /* number of the line, 0: not there */
  byte durable;  /* the name after a power cut */
  byte bytes[RANKS]; /* for each file whose line's bytes it has; 0: no such file */
  byte synced;   /* ranks, as bits: these bytes would survive */
  byte entered;  /* ranks, as bits: the name of the file would survive */
  bit manifest;
  bit durable_manifest;
  bit manifest_synced;
  byte manifest_of; /* the line that it is of */
};
typedef Store {
  Directory at[SLOTS];
  byte whole;   /* what the leader knows, lines as bits: Level::whole, partial and damaged */
  byte partial;
  byte damaged;
};
Store store[STORES];

/* The group of the background: agreements of one line, of even and odd lines in turn. */
typedef Agreement {
  byte came; /* ranks, as bits */
  bit failed;
};
typedef Round {
  Agreement on[8]; /* four for each level */
};
Round agreements[2];
byte broken = 0;      /* ranks, as bits, whose group is broken: they have waited in vain */
byte current[RANKS];  /* the line that each rank writes; 0 before the first */
byte mending = 0;     /* the line before which all ranks make a new group */
byte arrived = 0;     /* ranks, as bits, that wait for it */
byte first_line = 1;  /* of this job */

byte crashes_left = CRASHES;
byte timeouts_left = TIMEOUTS;
byte errors_left = ERRORS;
byte losses_left = LOSSES;
bool down = false;
byte stopped = 0;  /* ranks that have ended after a crash */
byte starting = 3; /* ranks of a new job that have not begun: it dies after that */

/* What must hold, for each level: lines as bits. */
byte committed[2];  /* whole, and durably so */
byte uncertain[2];  /* seen as whole, though a power cut may take them */

/* ---- storage ---------------------------------------------------------------------------------------------------- */

/* Of no use beyond one step: not part of a state. Only steps that cannot be left in the middle may use them. */
hidden byte i, j, p, s, k, best, visible, present, right, durable_somewhere, count;

inline find(st, line, slot) {
  slot = NONE;
  for (i : 0 .. SLOTS - 1) {
    if
    :: line != 0 && store[st].at[i].name == line -> slot = i
    :: else
    fi
  }
}

inline clear(dir) {
  dir.name = 0; dir.durable = 0; dir.synced = 0; dir.entered = 0;
  dir.manifest = 0; dir.durable_manifest = 0; dir.manifest_synced = 0; dir.manifest_of = 0;
  dir.bytes[0] = 0; dir.bytes[1] = 0; dir.bytes[2] = 0
}

inline sync_level(st) {
  for (i : 0 .. SLOTS - 1) {
    store[st].at[i].durable = store[st].at[i].name;
    if
    :: store[st].at[i].name == 0 -> clear(store[st].at[i])
    :: else
    fi
  }
}

inline sync_directory(dir) {
  dir.entered = ALL;
  dir.durable_manifest = dir.manifest
}

#ifdef BUG_RECYCLE_HALF_RETIRED
#define is_unused(st, k, line) (store[st].at[k].name != 0 && store[st].at[k].name < line && !store[st].at[k].manifest)
#else
#define is_unused(st, k, line) (store[st].at[k].name != 0 && store[st].at[k].name < line && \
  !store[st].at[k].manifest && !(store[st].whole & bit_of(store[st].at[k].name)))
#endif

/* The newest directory that is not used gets a new name, or there is a new one. */
inline take_directory(st, line) {
  j = NONE;
  for (i : 0 .. SLOTS - 1) {
    if
    :: is_unused(st, i, line) && (j == NONE || store[st].at[i].name > store[st].at[j].name) -> j = i
    :: else
    fi
  }
  for (i : 0 .. SLOTS - 1) {
    if
    :: j == NONE && store[st].at[i].name == 0 && store[st].at[i].durable == 0 -> j = i
    :: else
    fi
  }
  assert(j != NONE); /* retention bounds the directories */
  printf("rank %d: store %d: directory %d of line %d becomes line %d\n", rank, st, j,
    store[st].at[j].name, line);
  store[st].at[j].name = line
}

inline sweep(st) {
  j = NONE;
  for (i : 0 .. SLOTS - 1) {
    if
    :: is_unused(st, i, NONE) && (j == NONE || store[st].at[i].name > store[st].at[j].name) -> j = i
    :: else
    fi
  }
  for (i : 0 .. SLOTS - 1) {
    if
    :: i != j && is_unused(st, i, NONE) ->
      printf("rank %d: store %d: line %d is swept\n", rank, st, store[st].at[i].name);
      store[st].at[i].name = 0; store[st].at[i].entered = 0
    :: else
    fi
  }
}

/* ---- reading a line --------------------------------------------------------------------------------------------- */

/* Into `visible` and `present`: what names and sizes tell; into `right`: whether the bytes are those of the line. */
inline look_at(level, line) {
  visible = 0; present = 0; right = 0; durable_somewhere = 0;
  for (s : first_store(level) .. stores_end(level) - 1) {
    for (k : 0 .. SLOTS - 1) {
      if
      :: store[s].at[k].name == line ->
        if
        :: store[s].at[k].manifest && store[s].at[k].manifest_of == line ->
          visible = 1;
          durable_somewhere = durable_somewhere | store[s].at[k].durable_manifest
        :: else
        fi;
        for (p : 0 .. RANKS - 1) {
          if
          :: store[s].at[k].bytes[p] != 0 -> present = present | bit_of(p)
          :: else
          fi;
          if
          :: store[s].at[k].bytes[p] == line -> right = right | bit_of(p)
          :: else
          fi
        }
      :: else
      fi
    }
  }
}

/* What a leader learns when the session is opened, or a new group made: Engine::note_lines(). `resumes`: the lines that
 * resume() passes over are retired after the next commit. */
inline note_lines(level, resumes) {
  committed[level] = 0; uncertain[level] = 0; best = 0;
  for (s : first_store(level) .. stores_end(level) - 1) {
    store[s].whole = 0; store[s].partial = 0; store[s].damaged = 0
  }
  for (j : 1 .. LINES) {
    i = LINES + 1 - j; /* newest first */
    look_at(level, i);
    if
    :: visible && present == ALL ->
      assert(right == ALL); /* no mixture of lines is ever taken for one */
      best = (best == 0 -> i : best);
      if
      :: durable_somewhere -> committed[level] = committed[level] | bit_of(i)
      :: else -> uncertain[level] = uncertain[level] | bit_of(i)
      fi;
      for (s : first_store(level) .. stores_end(level) - 1) {
        store[s].whole = store[s].whole | bit_of(i)
      }
    :: visible && present != ALL ->
      for (s : first_store(level) .. stores_end(level) - 1) {
        store[s].partial = store[s].partial | bit_of(i);
        if
        :: resumes && best == 0 -> store[s].damaged = store[s].damaged | bit_of(i)
        :: else
        fi
      }
    :: else
    fi
  }
}

/* The newest KEEP of what the ranks take for whole are there, as far as they were durable. */
inline check_lines(level) {
  count = 0;
  for (j : 1 .. LINES) {
    i = LINES + 1 - j;
    if
    :: count < KEPT && (committed[level] & bit_of(i)) ->
      look_at(level, i);
      assert(visible && present == ALL && right == ALL)
    :: else
    fi;
    if
    :: (committed[level] | uncertain[level]) & bit_of(i) -> count++
    :: else
    fi
  }
}

/* Once there was a line there always is one. */
inline check_any(level) {
  count = 0;
  for (i : 1 .. LINES) {
    look_at(level, i);
    count = count + (visible && present == ALL && right == ALL)
  }
  assert(count > 0 || committed[level] == 0)
}

/* While nobody has lost patience and no storage failed, a manifest anywhere means that all of its line is safe
 * everywhere, until it is retired. */
inline check_newer_lines(level) {
  for (i : 1 .. LINES) {
    look_at(level, i);
    assert(!visible || committed[level] >= bit_of(i) || (present == ALL && right == ALL))
  }
}
#define undisturbed (timeouts_left == TIMEOUTS && errors_left == ERRORS && losses_left == LOSSES)

inline say_directories() {
  for (s : 0 .. STORES - 1) {
    for (k : 0 .. SLOTS - 1) {
      if
      :: store[s].at[k].name != 0 ->
        printf("  store %d: line %d, bytes of lines %d %d %d, manifest %d of line %d\n", s, store[s].at[k].name,
          store[s].at[k].bytes[0], store[s].at[k].bytes[1], store[s].at[k].bytes[2], store[s].at[k].manifest,
          store[s].at[k].manifest_of)
      :: else
      fi
    }
  }
}

/* A manifest in a directory promises the files that lie in it, whatever the other stores hold. */
inline check_directories() {
  for (s : 0 .. STORES - 1) {
    for (k : 0 .. SLOTS - 1) {
      if
#ifdef STRICT
      :: store[s].at[k].name != 0 && store[s].at[k].manifest ->
        assert(store[s].at[k].manifest_of == store[s].at[k].name);
#else /* one of another line is refused by who reads it */
      :: store[s].at[k].name != 0 && store[s].at[k].manifest && store[s].at[k].manifest_of == store[s].at[k].name ->
#endif
        for (p : 0 .. RANKS - 1) {
          assert(!(parts_of(s) & bit_of(p)) || store[s].at[k].bytes[p] == store[s].at[k].name)
        }
      :: else
      fi
    }
  }
}

/* ---- crashes ---------------------------------------------------------------------------------------------------- */

/* Each item that was not synced has a bit of `fate`: whether it survives. A first pass counts them, a second one lets
 * it come true. What lies in a directory without a manifest does not matter, unless another store has one. */
hidden byte matters[STORES * SLOTS];
short fate = 0;
byte items = 0;

#define same_line(one, other) (store[s].at[k].one != 0 && store[s].at[k].one == store[i].at[j].other)
#define is_open(p, how) (matters[s * SLOTS + k] && store[s].at[k].bytes[p] != 0 && !(store[s].at[k].how & bit_of(p)))

inline find_what_matters() {
  for (s : 0 .. STORES - 1) {
    for (k : 0 .. SLOTS - 1) {
      matters[s * SLOTS + k] = 0;
      for (i : 0 .. STORES - 1) {
        for (j : 0 .. SLOTS - 1) {
          if
          :: (s == 2) == (i == 2) && (store[i].at[j].manifest || store[i].at[j].durable_manifest) &&
            (same_line(name, name) || same_line(name, durable) || same_line(durable, name) ||
             same_line(durable, durable)) -> matters[s * SLOTS + k] = 1
          :: else
          fi
        }
      }
    }
  }
}

inline count_items() {
  find_what_matters();
  items = 0;
  for (s : 0 .. STORES - 1) {
    for (k : 0 .. SLOTS - 1) {
      items = items + (store[s].at[k].name != store[s].at[k].durable);
      items = items + (store[s].at[k].manifest != store[s].at[k].durable_manifest);
      items = items + (store[s].at[k].manifest && !store[s].at[k].manifest_synced);
      for (p : 0 .. RANKS - 1) {
        items = items + is_open(p, entered) + is_open(p, synced)
      }
    }
  }
}

inline next_fate() {
  count = (fate >> i) & 1;
  i++
}

inline apply_fate() {
  find_what_matters();
  i = 0;
  for (s : 0 .. STORES - 1) {
    for (k : 0 .. SLOTS - 1) {
      if
      :: store[s].at[k].name != store[s].at[k].durable ->
        next_fate();
        store[s].at[k].name = (count -> store[s].at[k].name : store[s].at[k].durable)
      :: else
      fi;
      j = store[s].at[k].manifest && !store[s].at[k].manifest_synced;
      if
      :: store[s].at[k].manifest != store[s].at[k].durable_manifest ->
        next_fate();
        store[s].at[k].manifest = (count -> store[s].at[k].manifest : store[s].at[k].durable_manifest)
      :: else
      fi;
      if
      :: j ->
        next_fate();
        store[s].at[k].manifest_of = (count -> store[s].at[k].manifest_of : DAMAGED)
      :: else
      fi;
      for (p : 0 .. RANKS - 1) {
        best = store[s].at[k].bytes[p];
        if
        :: is_open(p, synced) ->
          next_fate();
          best = (count -> best : DAMAGED)
        :: else
        fi;
        if
        :: is_open(p, entered) ->
          next_fate();
          best = (count -> best : 0)
        :: else
        fi;
        if
        :: !matters[s * SLOTS + k] -> best = 0 /* that its name may be lost again is the worse case */
        :: else
        fi;
        store[s].at[k].bytes[p] = best
      }
    }
  }
  for (s : 0 .. STORES - 1) {
    for (k : 0 .. SLOTS - 1) {
      if
      :: store[s].at[k].name == 0 -> clear(store[s].at[k])
      :: else ->
        store[s].at[k].durable = store[s].at[k].name;
        store[s].at[k].durable_manifest = store[s].at[k].manifest;
        store[s].at[k].manifest_synced = store[s].at[k].manifest;
        store[s].at[k].manifest_of = (store[s].at[k].manifest -> store[s].at[k].manifest_of : 0);
        store[s].at[k].synced = ALL;
        store[s].at[k].entered = ALL
      fi
    }
  }
  fate = 0; items = 0
}

/* `lost`: a store that is lost with its node */
inline power_cut(lost) {
  d_step { count_items(); skip }
  do
  :: items > 0 -> items--; fate = fate << 1
  :: items > 0 -> items--; fate = (fate << 1) | 1
  :: items == 0 -> break
  od;
  skip; /* a loop must not end where a d_step begins */
  d_step {
    apply_fate();
    if
    :: lost != NONE -> lose_node(lost)
    :: else
    fi;
    skip
  }
}

inline lose_node(st) {
  for (k : 0 .. SLOTS - 1) {
    clear(store[st].at[k])
  }
  committed[0] = 0; uncertain[0] = 0; losses_left--
}

inline relaunch() {
#ifndef BUG_NO_OPEN_SYNC
  for (s : 0 .. STORES - 1) {
    for (k : 0 .. SLOTS - 1) {
      if
      :: store[s].at[k].name != 0 -> sync_directory(store[s].at[k])
      :: else
      fi
    }
    sync_level(s)
  }
#endif
  note_lines(0, true);
  note_lines(1, true);
  first_line = 1;
  for (s : 0 .. STORES - 1) {
    for (k : 0 .. SLOTS - 1) {
      if
      :: store[s].at[k].name >= first_line -> first_line = store[s].at[k].name + 1
      :: else
      fi
    }
  }
}

/* What the processes knew is gone. */
inline forget() {
  for (s : 0 .. STORES - 1) {
    store[s].whole = 0; store[s].partial = 0; store[s].damaged = 0
  }
  broken = 0; mending = 0; arrived = 0;
  for (i : 0 .. 7) {
    agreements[0].on[i].came = 0; agreements[0].on[i].failed = 0;
    agreements[1].on[i].came = 0; agreements[1].on[i].failed = 0
  }
  for (i : 0 .. RANKS - 1) {
    current[i] = 0
  }
}

#define swap(field) \
  j = store[s].at[k].field; store[s].at[k].field = store[s].at[k + 1].field; store[s].at[k + 1].field = j

/* The same directories in another order are the same state. */
inline sort_directories() {
  for (s : 0 .. STORES - 1) {
    for (i : 0 .. SLOTS - 2) {
      for (k : 0 .. SLOTS - 2) {
        if
        :: store[s].at[k].name < store[s].at[k + 1].name ->
          swap(name); swap(durable); swap(bytes[0]); swap(bytes[1]); swap(bytes[2]); swap(synced); swap(entered);
          swap(manifest); swap(durable_manifest); swap(manifest_synced); swap(manifest_of)
        :: else
        fi
      }
    }
  }
}

active proctype crashes() {
end:
  do
  :: crashes_left > 0 && starting == 0 ->
    d_step { crashes_left--; down = true; forget(); skip }
    stopped == RANKS;
    atomic {
      if
      :: true /* all are killed */
      :: true -> power_cut(NONE)
      :: losses_left > 0 -> power_cut(0)
      :: losses_left > 0 -> power_cut(1)
      fi;
      printf("crash, down to these:\n");
      d_step {
        say_directories();
        check_directories();
        check_lines(0);
        check_lines(1);
        check_any(0);
        check_any(1);
        if
        :: undisturbed -> check_newer_lines(0); check_newer_lines(1)
        :: else
        fi;
        relaunch();
        sort_directories();
        stopped = 0;
        starting = RANKS;
        down = false
      }
    }
  od
}

/* ---- ranks ------------------------------------------------------------------------------------------------------ */

#define here agreements[line % 2].on[4 * level + which]

/* all_max(): `mine` says whether this rank has failed. `outcome`: 0: well, 1: some rank failed, 2: waited in vain. */
inline agree(which, mine) {
  if
  :: broken & bit_of(rank) -> outcome = 2
  :: else ->
    d_step {
      here.came = here.came | bit_of(rank);
      here.failed = here.failed | mine;
      if
      :: which == 3 && here.came == ALL && !here.failed -> committed[level] = committed[level] | bit_of(line)
      :: else
      fi
    }
    if
    :: d_step { here.came == ALL -> outcome = here.failed }
    :: d_step { here.came != ALL && (broken & ~here.came) -> outcome = 2; broken = broken | bit_of(rank) }
    :: d_step { timeouts_left > 0 -> timeouts_left--; outcome = 2; broken = broken | bit_of(rank) }
    fi
  fi
}

/* An operation of the storage that may fail: then `bad` is 1. */
inline may_fail() {
  if
  :: true
  :: errors_left > 0 -> errors_left--; bad = 1
  fi;
  skip
}

inline prepare() {
  if
  :: leads(rank, mine) ->
#ifdef SYNC_TAKEN
    d_step {
      for (k : 0 .. SLOTS - 1) {
        if
        :: is_unused(mine, k, line) -> sync_directory(store[mine].at[k])
        :: else
        fi
      }
      skip
    }
#endif
    atomic {
      may_fail();
      d_step {
        if
        :: !bad -> take_directory(mine, line)
        :: else
        fi;
        skip
      }
    }
#ifndef BUG_NO_LEVEL_SYNC
    d_step {
      if
      :: !bad -> sync_level(mine)
      :: else
      fi;
      skip
    }
#endif
  :: else
  fi
}

inline write_file() {
  atomic {
    may_fail();
    d_step {
      find(mine, line, slot);
      if
      :: slot == NONE -> bad = 1
      :: slot != NONE && !bad ->
        if
        :: store[mine].at[slot].bytes[rank] == 0 ->
          store[mine].at[slot].entered = store[mine].at[slot].entered & ~bit_of(rank)
        :: else
        fi;
        printf("rank %d: store %d: writes its file of line %d\n", rank, mine, line);
        store[mine].at[slot].bytes[rank] = line;
        store[mine].at[slot].synced = store[mine].at[slot].synced & ~bit_of(rank)
      :: else
      fi;
      skip
    }
  }
#ifndef BUG_NO_DATA_SYNC
  d_step {
    if
    :: !bad -> store[mine].at[slot].synced = store[mine].at[slot].synced | bit_of(rank)
    :: else
    fi
  }
#endif
}

inline stage() {
  if
  :: leads(rank, mine) ->
    atomic {
      may_fail();
      d_step {
        find(mine, line, slot);
        bad = (slot == NONE -> 1 : bad);
        if
        :: !bad ->
          printf("rank %d: store %d: manifest.part of line %d written\n", rank, mine, line);
          store[mine].at[slot].manifest_of = line; store[mine].at[slot].manifest_synced = 0
        :: else
        fi;
        skip
      }
    }
#ifndef BUG_NO_MANIFEST_SYNC
    d_step {
      if
      :: !bad -> store[mine].at[slot].manifest_synced = 1
      :: else
      fi
    }
#endif
#ifndef BUG_NO_NAMES_SYNC
    d_step {
      if
      :: !bad -> sync_directory(store[mine].at[slot])
      :: else
      fi
    }
#endif
  :: else
  fi
}

inline rename_manifest() {
  if
  :: leads(rank, mine) ->
    atomic {
      may_fail();
      d_step {
        find(mine, line, slot);
        bad = (slot == NONE -> 1 : bad);
        if
        :: !bad ->
          printf("rank %d: store %d: manifest of line %d renamed\n", rank, mine, line);
          store[mine].at[slot].manifest = 1
        :: else
        fi;
        skip
      }
    }
#ifndef BUG_NO_COMMIT_SYNC
    atomic {
      if
      :: !bad ->
        may_fail();
        if
        :: !bad -> sync_directory(store[mine].at[slot])
        :: else
        fi
      :: else
      fi
    }
#endif
  :: else
  fi
}

inline retire(st, number) {
  d_step {
    find(st, number, slot);
    if
    :: slot != NONE ->
      printf("rank %d: store %d: manifest of line %d removed\n", rank, st, number);
      store[st].at[slot].manifest = 0
    :: else
    fi
  }
#ifndef BUG_NO_RETIRE_SYNC
  d_step {
    if
    :: slot != NONE -> sync_directory(store[st].at[slot])
    :: else
    fi
  }
#endif
}

/* retire_surplus() */
inline retire_surplus(keep) {
  if
  :: leads(rank, mine) ->
    d_step {
      count = 0; surplus = store[mine].damaged;
      for (j : 1 .. LINES) {
        i = LINES + 1 - j;
        if
        :: store[mine].whole & bit_of(i) ->
          if
          :: count >= keep -> surplus = surplus | bit_of(i); store[mine].whole = store[mine].whole & ~bit_of(i)
          :: else -> count++; best = i
          fi
        :: else
        fi
      }
      for (i : 1 .. LINES) {
        if
        :: count >= keep && i < best && (store[mine].partial & bit_of(i)) -> surplus = surplus | bit_of(i)
        :: else
        fi
      }
      store[mine].partial = store[mine].partial & ~surplus;
      store[mine].damaged = 0;
      number = 1
    }
    do
    :: number <= LINES && (surplus & bit_of(number)) ->
      retire(mine, number);
      surplus = surplus & ~bit_of(number)
    :: d_step { number <= LINES && !(surplus & bit_of(number)) -> number++ }
    :: d_step { number > LINES -> sweep(mine); surplus = 0; number = 0; slot = 0 } break
    od
  :: else
  fi
}

/* write_line() and what Background::write() does behind it. */
inline write_line() {
  d_step { bad = 0; outcome = 0; slot = NONE; mine = store_of(level, rank) }
  prepare();
  agree(0, bad);
  if
  :: outcome == 0 ->
    write_file();
#ifndef BUG_STAGE_EARLY
    agree(1, bad);
#endif
    if
    :: outcome == 0 ->
      stage();
#ifndef BUG_COMMIT_EARLY
      agree(2, bad)
#endif
    :: else
    fi
  :: else
  fi;
  if
  :: outcome == 0 && !bad ->
    rename_manifest();
#ifdef BUG_RETIRE_EARLY
    store[mine].whole = (leads(rank, mine) -> store[mine].whole | bit_of(line) : store[mine].whole);
    retire_surplus(KEEP);
#endif
    agree(3, bad);
    if
    :: outcome == 0 ->
      assert(committed[level] & bit_of(line)); /* it is reported only when it is durable everywhere */
      store[mine].whole = (leads(rank, mine) -> store[mine].whole | bit_of(line) : store[mine].whole);
      retire_surplus(KEEP)
    :: outcome == 1 && !bad && leads(rank, mine) -> retire(mine, line)
#ifdef BUG_TAKE_BACK
    :: outcome == 2 && !bad && leads(rank, mine) -> retire(mine, line)
#endif
    :: else
    fi
  :: outcome == 1 -> /* given up: the leaders remove what there is */
    d_step {
      find(mine, line, slot);
      if
      :: leads(rank, mine) && slot != NONE -> store[mine].at[slot].name = 0; store[mine].at[slot].entered = 0
      :: else
      fi
    }
  :: else
  fi
}

inline enter() {
  if
  :: current[0] < line && current[1] < line && current[2] < line ->
    for (i : 0 .. 7) {
      agreements[line % 2].on[i].came = 0; agreements[line % 2].on[i].failed = 0
    }
  :: else
  fi;
  current[rank] = line
}

/* Captures are taken in the same calls: nobody begins a line before all have begun the one before. Where somebody's
 * group is broken all may make a new one, with nothing in flight, and look up which lines are whole. */
inline begin_line() {
  line == first_line || (current[0] >= line - 1 && current[1] >= line - 1 && current[2] >= line - 1);
  atomic {
    if
    :: mending == line
    :: mending != line && broken && current[0] < line && current[1] < line && current[2] < line -> mending = line
    :: mending != line -> d_step { enter() }
    fi
  }
  if
  :: current[rank] < line ->
    d_step {
      arrived = arrived | bit_of(rank);
      if
      :: arrived == ALL ->
        broken = 0; arrived = 0; mending = 0;
        check_lines(0); check_lines(1);
        note_lines(0, false); note_lines(1, false)
      :: else
      fi
    }
    d_step { mending != line -> enter() }
  :: else
  fi
}

proctype rank_process(byte rank) provided (!down || stopped == _pid - 2) {
  byte line, level, mine, slot, outcome, surplus, number;
  bit bad;
start:
  {
    d_step { line = first_line; starting-- }
#ifdef PRUNE
    if
    :: crashes_left < CRASHES ->
      d_step { level = 1; mine = store_of(level, rank) }
      retire_surplus(1)
    :: else
    fi;
#endif
    do
    :: line > LINES -> break
    :: line <= LINES ->
      begin_line();
      level = 0;
      do
      :: level < 2 && (LEVELS & bit_of(level)) -> write_line(); level++
      :: level < 2 && !(LEVELS & bit_of(level)) -> level++
      :: level == 2 -> break
      od;
      line++
    od;
end:
    false
  } unless {
    d_step {
      down -> stopped++;
      line = 0; level = 0; mine = 0; slot = 0; outcome = 0; surplus = 0; number = 0; bad = 0
    }
    !down;
    goto start
  }
}

init {
  atomic {
    run rank_process(0);
    run rank_process(1);
    run rank_process(2)
  }
}
