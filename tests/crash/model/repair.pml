/* How those who are left go on when a process dies: Crew::meet() and Crew::repair() of src/comm/crew.cpp, their callers
 * in src/api/session_repair.cpp, plan_repair() of src/comm/repair_plan.cpp; docs/decisions/0011-online-repair.md.
 *
 * WORKERS ranks and SPARES. A worker makes a collective call in the body of loop(), then comes to the meeting at the
 * end of loop(), then to that of the end of the session. Processes die anywhere, CRASHES at most.
 *
 * What MPI gives (MPI-5, user-level failure mitigation): an agreement ends with the same outcome for all who live, once
 * each has come or died, and tells all of a death or none. So does a shrink: all who live get the same group. Any other
 * collective call may end well on some and fail on others where a process of the group has died; it ends well only if
 * all have come. Of a process that has died one that lives may never hear: at least one does of one that did not come,
 * and all do of a group that was revoked.
 *
 * Time-outs are left out, so that whoever would wait for ever is found.
 *
 * Each BUG_... alters the protocol; the model checker has to notice. */

#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef SPARES
#define SPARES 1
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef SHRINKS
#define SHRINKS 0 /* the option: without enough spares those who are left go on */
#endif

#define PROCESSES (WORKERS + SPARES)
#define SPARE 15 /* in place of a rank */
#define GROUPS (3 * CRASHES + 3)
#define bit_of(n) (1 << (n))
#define i_am_dead (dead & bit_of(me))

/* What a process says when it comes (Word); how a meeting ends (Fate); what it is. */
mtype = { failed, finished, closing, waiting, has_finished, has_closed, again, lost, none, nothing, agreement, shrink };

byte dead = 0; /* processes, as bits */
byte crashes_left = CRASHES;
byte ended = 0; /* processes that have ended as they may, as bits */

/* Groups by number; a shrink makes the next one. Processes as bits. */
typedef Call {
  byte came;
};
typedef Group {
  byte members;
  bit revoked;
  Call call[2]; /* of a round of repair: who is there; the workers are split off */
  byte workers; /* their communicator, which is made in this group */
  bit workers_revoked;
  byte body;    /* who has come to the call in loop() */
  /* an agreement or a shrink of those who live, one after the other */
  mtype kind;
  byte came;
  byte left;    /* who knows the outcome */
  bit decided;
  bit died;     /* the outcome */
  bit unwell;
  bit open;     /* not all are closing */
  /* what must be the same for all, or for nobody */
  byte adopted;
  byte dropped;
  byte rank[PROCESSES];
  mtype fate;
  byte next_group; /* made by the shrink */
};
Group group[GROUPS];
byte groups = 1;

/* What each process says of itself. */
byte rank_of[PROCESSES];
mtype word_of[PROCESSES];

hidden byte i, k, next, missing, any_failed, any_closing, any_finished;

/* ---- MPI -------------------------------------------------------------------------------------------------------- */

#define living(g) (group[g].members & ~dead)
#define lowest(bits, p) (((bits) & bit_of(p)) && !((bits) & (bit_of(p) - 1)))

/* Comes to the agreement or shrink of group `g`, and waits for its outcome. All who live come to the same ones. */
inline come(g, what, is_failed, is_open) {
  d_step {
    !group[g].decided || !(group[g].came & ~group[g].left & ~dead) ->
    if
    :: group[g].decided ->
      group[g].decided = 0; group[g].came = 0; group[g].left = 0; group[g].died = 0; group[g].unwell = 0;
      group[g].open = 0; group[g].kind = nothing
    :: else
    fi;
    assert(group[g].kind == nothing || group[g].kind == what);
    group[g].kind = what;
    group[g].came = group[g].came | bit_of(me);
    group[g].unwell = group[g].unwell | is_failed;
    group[g].open = group[g].open | is_open
  }
  atomic {
    (group[g].came & living(g)) == living(g) || group[g].decided;
    if
    :: group[g].decided
    :: !group[g].decided && (group[g].members & ~group[g].came) ->
      group[g].decided = 1; group[g].died = 1
    :: !group[g].decided && !(group[g].members & ~group[g].came) -> group[g].decided = 1
    :: !group[g].decided && !(group[g].members & ~group[g].came) && (group[g].members & dead) ->
      group[g].decided = 1; group[g].died = 1
    fi;
    if
    :: what == shrink && !group[g].left ->
      assert(groups < GROUPS);
      group[groups].members = living(g);
      group[groups].fate = none;
      group[groups].kind = nothing;
      group[g].next_group = groups;
      groups++
    :: else
    fi;
    group[g].left = group[g].left | bit_of(me);
    not_well = group[g].died || group[g].unwell;
    not_closing = group[g].open
  }
}

/* A call of all of `all` that is no agreement. */
inline collective(who_came, everyone, is_revoked, ends_well) {
  atomic {
    who_came = who_came | bit_of(me);
    if
    :: notices = 0
    :: notices = 1
    fi
  }
  if
  :: atomic { (who_came & everyone) == everyone -> ends_well = 1; notices = 0 }
  :: atomic {
      is_revoked || ((everyone & dead) && notices) ||
      ((everyone & dead & ~who_came) && lowest(everyone & ~dead, me)) -> ends_well = 0; notices = 0
    }
  fi
}

/* ---- repair ----------------------------------------------------------------------------------------------------- */

/* plan_repair(): into group[g].rank and .fate; by whoever comes first, as it depends on what all have said alone. */
inline plan(g) {
  if
  :: group[g].fate == none ->
    missing = 0; any_failed = 0; any_closing = 0; any_finished = 0;
    for (i : 0 .. PROCESSES - 1) {
      group[g].rank[i] = (group[g].members & bit_of(i) -> rank_of[i] : SPARE);
      if
      :: group[g].members & bit_of(i) ->
        any_failed = any_failed || word_of[i] == failed;
        any_closing = any_closing || word_of[i] == closing;
        any_finished = any_finished || word_of[i] == finished
      :: else
      fi
    }
    for (k : 0 .. worker_count - 1) {
      next = SPARE;
      for (i : 0 .. PROCESSES - 1) {
        next = (group[g].rank[i] == k -> i : next)
      }
      if
      :: next == SPARE -> /* lost: the first spare takes its place */
        any_failed = 1;
        for (i : 0 .. PROCESSES - 1) {
          if
          :: next == SPARE && (group[g].members & bit_of(i)) && group[g].rank[i] == SPARE ->
            group[g].rank[i] = k; next = i
          :: else
          fi
        }
        missing = missing + (next == SPARE)
      :: else
      fi
    }
    if
    :: missing && SHRINKS -> /* without gaps */
      next = 0;
      for (k : 0 .. worker_count - 1) {
        for (i : 0 .. PROCESSES - 1) {
          if
          :: group[g].rank[i] == k && next <= k -> group[g].rank[i] = next; next++; break
          :: else
          fi
        }
      }
    :: else
    fi;
    group[g].workers = 0;
    for (i : 0 .. PROCESSES - 1) {
      if
      :: group[g].rank[i] != SPARE -> group[g].workers = group[g].workers | bit_of(i)
      :: else
      fi;
      for (k : 0 .. PROCESSES - 1) {
        assert(i == k || group[g].rank[i] == SPARE || group[g].rank[i] != group[g].rank[k])
      }
    }
    if
    :: any_failed -> group[g].fate = (any_closing || (missing && !SHRINKS) -> lost : again)
    :: else -> group[g].fate = (any_finished -> has_finished : has_closed)
    fi;
    if
    :: group[g].workers == 0 -> group[g].fate = lost
    :: else
    fi;
    same_ranks = !any_failed
  :: else ->
    same_ranks = !(group[g].fate == again || group[g].fate == lost)
  fi;
  skip
}

#define count_of(bits) \
  (((bits) & 1) + (((bits) >> 1) & 1) + (((bits) >> 2) & 1) + (((bits) >> 3) & 1) + (((bits) >> 4) & 1))

inline adopt() {
  group[mine].adopted = group[mine].adopted | bit_of(me);
  rank_of[me] = group[mine].rank[me];
  worker_count = (SHRINKS && group[mine].fate == again -> count_of(group[mine].workers) : worker_count);
  workers = (same_ranks -> workers : mine)
}

/* Crew::repair() */
inline repair() {
  do
  :: true ->
    come(mine, shrink, 0, 0);
    d_step { mine = group[mine].next_group; well = 0; same_ranks = 0 }
    collective(group[mine].call[0].came, group[mine].members, group[mine].revoked, well);
    if
    :: well ->
      d_step { plan(mine) }
      if
      :: !same_ranks -> collective(group[mine].call[1].came, group[mine].members, group[mine].revoked, well)
      :: else
      fi
    :: else
    fi;
#ifdef BUG_ADOPT_EARLY
    if
    :: well -> adopt()
    :: else
    fi;
#endif
#ifndef BUG_NO_REVOKE
    if
    :: !well -> group[mine].revoked = 1
    :: else
    fi;
#endif
#ifdef BUG_ALONE
    if
    :: !well -> goto next_round
    :: else
    fi;
#endif
    come(mine, agreement, !well, 0);
    if
    :: d_step { !not_well ->
        assert(well);
        adopt();
        assert(!group[mine].dropped);
        fate = group[mine].fate
      }
      break
    :: d_step { not_well ->
        group[mine].dropped = 1;
        assert(!group[mine].adopted) /* for all or for nobody */
      }
    fi;
next_round:
    skip
  od
}

/* Crew::meet() */
inline meet(word) {
  word_of[me] = word;
  come(mine, agreement, word == failed, word == failed || word == finished);
  if
  :: d_step { !not_well -> fate = (not_closing -> has_finished : has_closed); not_closing = 0 }
  :: d_step { not_well -> fate = none; not_closing = 0 } repair()
  fi
}

/* ---- processes -------------------------------------------------------------------------------------------------- */

mtype ended_as = none;

inline end_as(what) {
  d_step {
    assert(ended_as == none || ended_as == what);
    ended_as = what
  }
}

/* Crew::part(); and the meeting before MPI ends, src/comm/leaving.cpp. Left out: that ranks meet among themselves before
 * that, and save what memory holds where the job is lost, which are bounded. */
inline come_to_the_end() {
#ifdef BUG_PARTS_ALONE
  if
  :: rank_of[me] != SPARE -> come(mine, agreement, 0, 0)
  :: else
  fi
#else
  come(mine, agreement, 0, 0)
#endif
}

/* The body of loop(), and its end: Session::Impl::come_together(), let_spares_go(). */
inline work() {
  fate = again;
  do
  :: fate == again ->
    well = 0;
    collective(group[workers].body, group[workers].workers, group[workers].workers_revoked, well);
    if
    :: well -> meet(finished)
    :: !well ->
#ifndef BUG_NO_ALARM
      group[workers].workers_revoked = 1; /* Alarm::ring() */
#endif
      meet(failed);
      assert(fate == again || fate == lost)
    fi;
    assert(fate != again || !same_ranks)
  :: fate == lost -> come_to_the_end(); end_as(lost); break
  :: fate == has_finished ->
    meet(closing);
    assert(fate != again) /* who has left loop() cannot roll back */
  :: fate == has_closed -> come_to_the_end(); end_as(has_closed); break
  od
}

/* Session::Impl::stand_by() */
inline stand_by() {
  do
  :: rank_of[me] == SPARE && (fate == none || fate == has_finished || fate == again) -> meet(waiting)
  :: rank_of[me] == SPARE && (fate == lost || fate == has_closed) -> come_to_the_end(); end_as(fate); break
  :: rank_of[me] != SPARE && fate == lost -> come_to_the_end(); end_as(lost); break
  :: rank_of[me] != SPARE && fate != lost -> work(); break
  od
}

proctype process(byte me) {
  byte mine, workers, worker_count = WORKERS;
  bit well, same_ranks, notices, not_well, not_closing;
  mtype fate = none;
  {
    stand_by();
    ended = ended | bit_of(me)
  } unless { i_am_dead }
}

active proctype deaths() {
  byte victim = 0;
end:
  do
  :: crashes_left > 0 ->
    atomic {
      select(victim : 0 .. PROCESSES - 1);
      if
      :: !((dead | ended) & bit_of(victim)) -> dead = dead | bit_of(victim); crashes_left--
      :: else
      fi;
      victim = 0
    }
  od
}

init {
  atomic {
    group[0].members = bit_of(PROCESSES) - 1;
    group[0].workers = bit_of(WORKERS) - 1;
    group[0].fate = none;
    group[0].kind = nothing;
    byte p;
    for (p : 0 .. PROCESSES - 1) {
      rank_of[p] = (p < WORKERS -> p : SPARE);
      word_of[p] = nothing;
      run process(p)
    }
    p = 0
  }
}
