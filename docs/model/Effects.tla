------------------------------- MODULE Effects -------------------------------
(* One effect of a run, from its plan until it is settled: promises P2, P3, P4, P7 and P13.                    *)
(* Two workers drive it, a person may settle it. Workers crash and restart at any step, or lose their lease    *)
(* while they live: a pause is a step that comes late, so a zombie wakes with its send still to come. What was *)
(* sent lands late or never; replies get lost.                                                                 *)
(* Each Variant other than "good" takes one rule away and must break one named claim.                          *)
EXTENDS Naturals

CONSTANTS Kinds, Workers, Variant, MaxAttempts, Endless, Faults

VARIABLES
  world,    \* fixed at the start: the kind of tool; whether the workers are near (on one machine)
  ledger,   \* the durable row: state, attempt, its caller, whether its call is known to be over, is a person asked
  last,     \* the last event of the ledger: by whom and how
  lease,    \* the durable lease: fencing token, and whether it is live on the store's clock
  worker,   \* volatile: program counter, token held, attempt worked on, answer got
  net,      \* requests on their way: attempt and sender
  outside,  \* how often applied, the answer kept for the key, whether the key is still kept
  fact,     \* gone: the caller's lock file is free. quiet: lands_within has passed since it could not send
  budget    \* crashes and pauses past a lease that may still come, unless there is no limit (Endless)

vars == <<world, ledger, last, lease, worker, net, outside, fact, budget>>

Process == [pc |-> "idle", tok |-> 0, my |-> 0, got |-> "none"]

Init ==
  /\ world \in [kind : Kinds, near : BOOLEAN]
  /\ world.kind # "probe" => world.near  \* for the others, what the far may do is part of what the near may do
  /\ ledger = [state |-> "planned", attempt |-> 0, caller |-> "none", stopped |-> FALSE, asked |-> FALSE]
  /\ last = [by |-> "person", how |-> "plan"]
  /\ lease = [token |-> 0, live |-> FALSE]
  /\ worker = [w \in Workers |-> Process]
  /\ net = {}
  /\ outside = [applied |-> 0, answer |-> "none", kept |-> TRUE]
  /\ fact = [gone |-> FALSE, quiet |-> FALSE]
  /\ budget = IF Endless THEN 0 ELSE Faults

---------------------------------------------------------------------------------------------------------------
(* Words *)

Settled ==  \* "given up" is failed in the ledger, by a person and not by the tool
  ledger.state \in {"committed", "failed", "given up", "withdrawn"}
Doubt == ledger.state = "in_doubt"
WaitsForPerson == Doubt /\ ledger.asked

At(w, pc) == worker[w].pc = pc
Valid(w) == lease.live /\ worker[w].tok = lease.token
MayWrite(w) == Valid(w) \/ (Variant = "no_fence" /\ worker[w].tok > 0)
HolderDead == \A w \in Workers : worker[w].tok # lease.token
Own(w) == ledger.attempt = worker[w].my /\ ledger.caller = w
OwnUnsettled(w) == Own(w) /\ ledger.state \in {"dispatched", "in_doubt"}
AttemptsLeft == ledger.attempt < MaxAttempts

Strikes == IF Endless THEN UNCHANGED budget ELSE budget > 0 /\ budget' = budget - 1
MayStillSend == \E w \in Workers : worker[w].pc \in {"ready", "sending"}  \* the truth, which no worker can see

(* What a worker can prove: the caller itself recorded that its call was stopped or returned, or its lock file *)
(* is free. That a deadline has passed on the clock proves nothing about a paused caller.                      *)
CannotSend ==
  \/ ledger.stopped
  \/ world.near /\ fact.gone

AbsentIsFinal ==
  CASE Variant = "fence_only" -> TRUE
    [] Variant = "unproved_death" -> fact.quiet
    [] Variant = "no_landing_wait" -> CannotSend
    [] OTHER -> CannotSend /\ fact.quiet

Event(w, how) == last' = [by |-> w, how |-> how]
Write(w, how, row) == ledger' = row /\ Event(w, how)
Nothing == UNCHANGED <<ledger, last>>

In(state) == [ledger EXCEPT !.state = state]
Ended(state) == [ledger EXCEPT !.state = state, !.caller = "none", !.stopped = FALSE, !.asked = FALSE]
Absent == Ended(IF AttemptsLeft THEN "planned" ELSE "failed")
Attempt(n, w) == [state |-> "dispatched", attempt |-> n, caller |-> w, stopped |-> FALSE, asked |-> FALSE]
Asking == [ledger EXCEPT !.asked = TRUE]

Becomes(w, process) == worker' = [worker EXCEPT ![w] = process]
Goes(w, pc) == Becomes(w, [worker[w] EXCEPT !.pc = pc])
Rests(w) == Becomes(w, [Process EXCEPT !.tok = worker[w].tok])
Begins(n, w) ==  \* a call of attempt n; what was known about the last caller is void
  /\ Becomes(w, [worker[w] EXCEPT !.pc = "ready", !.my = n])
  /\ fact' = [gone |-> FALSE, quiet |-> FALSE]

---------------------------------------------------------------------------------------------------------------
(* Leases *)

Claim(w) ==
  /\ At(w, "idle") /\ ~Settled /\ ~WaitsForPerson
  /\ ~lease.live \/ (world.near /\ HolderDead)
  /\ lease' = [token |-> lease.token + 1, live |-> TRUE]
  /\ Becomes(w, [worker[w] EXCEPT !.tok = lease.token + 1])
  /\ UNCHANGED <<world, ledger, last, net, outside, fact, budget>>

Free == lease' = [lease EXCEPT !.live = FALSE]

Expire ==  \* the holder is dead, here or elsewhere
  /\ lease.live /\ HolderDead
  /\ Free
  /\ UNCHANGED <<world, ledger, last, worker, net, outside, fact, budget>>

Lapse ==  \* the holder lives, but is paused: its heartbeats stop
  /\ lease.live /\ ~HolderDead /\ ~Settled
  /\ Free
  /\ Strikes
  /\ UNCHANGED <<world, ledger, last, worker, net, outside, fact>>

---------------------------------------------------------------------------------------------------------------
(* Plan, dispatch, call, result *)

Dispatch(w) ==  \* compare-and-set: one transaction looks at the state and the fence, and writes
  /\ At(w, "idle") /\ MayWrite(w) /\ ledger.state = "planned"
  /\ Variant \notin {"no_dispatch_record", "no_compare_and_set"}
  /\ Write(w, "dispatch", Attempt(ledger.attempt + 1, w))
  /\ Begins(ledger.attempt + 1, w)
  /\ UNCHANGED <<world, lease, net, outside, budget>>

CallUnrecorded(w) ==
  /\ Variant = "no_dispatch_record"
  /\ At(w, "idle") /\ Valid(w) /\ ledger.state = "planned"
  /\ Begins(ledger.attempt + 1, w)
  /\ UNCHANGED <<world, ledger, last, lease, net, outside, budget>>

ReadThenWrite(w) ==
  /\ Variant = "no_compare_and_set"
  /\ \/ /\ At(w, "idle") /\ Valid(w) /\ ledger.state = "planned"
        /\ Becomes(w, [worker[w] EXCEPT !.pc = "decided", !.my = ledger.attempt])
        /\ UNCHANGED fact /\ Nothing
     \/ /\ At(w, "decided")
        /\ Write(w, "dispatch", Attempt(worker[w].my + 1, w))
        /\ Begins(worker[w].my + 1, w)
  /\ UNCHANGED <<world, lease, net, outside, budget>>

CheckLease(w) ==  \* once more, right before the call; a pause may still come between this and the send
  /\ At(w, "ready")
  /\ IF Valid(w) THEN Goes(w, "sending") ELSE Rests(w)
  /\ UNCHANGED <<world, ledger, last, lease, net, outside, fact, budget>>

Send(w) ==
  /\ At(w, "sending")
  /\ net' = net \cup {[attempt |-> worker[w].my, from |-> w]}
  /\ Goes(w, "awaiting")
  /\ IF Variant = "sent_is_done" /\ OwnUnsettled(w) THEN Write(w, "late", Ended("committed")) ELSE Nothing
  /\ UNCHANGED <<world, lease, outside, fact, budget>>

Result(w) ==  \* late: of the same attempt, by its caller, whoever holds the lease; after settlement it changes nothing
  LET row == Ended(IF worker[w].got = "ok" THEN "committed" ELSE "failed")
  IN /\ At(w, "got")
     /\ Rests(w)
     /\ CASE OwnUnsettled(w) -> Write(w, IF Valid(w) /\ ~Doubt THEN "result" ELSE "late", row)
          [] ~OwnUnsettled(w) /\ Variant \in {"no_fence", "no_dispatch_record"} /\ ~Settled -> Write(w, "result", row)
          [] ~OwnUnsettled(w) /\ Variant = "late_overwrites" -> Write(w, "late", row)
          [] OTHER -> Nothing
     /\ UNCHANGED <<world, lease, net, outside, fact, budget>>

CallEnds(w) ==  \* without an answer: it raised, was killed at its deadline, or finished its cancellation
  /\ At(w, "awaiting") \/ At(w, "sending")
  /\ Rests(w)
  /\ IF OwnUnsettled(w)
       THEN Write(w, IF Valid(w) THEN "timeout" ELSE "late", [In("in_doubt") EXCEPT !.stopped = TRUE])
       ELSE Nothing
  /\ UNCHANGED <<world, lease, net, outside, fact, budget>>

ThreadTimesOut(w) ==  \* a call in a thread cannot be stopped: doubt is recorded, the thread goes on
  /\ At(w, "awaiting") \/ At(w, "sending")
  /\ Valid(w) /\ Own(w) /\ ledger.state = "dispatched"
  /\ Write(w, "timeout", In("in_doubt"))
  /\ Free
  /\ UNCHANGED <<world, worker, net, outside, fact, budget>>

---------------------------------------------------------------------------------------------------------------
(* Doubt and its rules *)

MarkDoubt(w) ==  \* recovery: a dispatch whose caller no longer holds the lease
  /\ Variant # "nobody_sweeps"
  /\ At(w, "idle") /\ MayWrite(w) /\ ledger.state = "dispatched"
  /\ Write(w, "doubt", In("in_doubt"))
  /\ UNCHANGED <<world, lease, worker, net, outside, fact, budget>>

MayCallAgain ==
  /\ AttemptsLeft
  /\ \/ world.kind = "idempotent"
     \/ world.kind = "keyed" /\ (outside.kept \/ Variant = "retention_ignored")
     \/ world.kind = "unsafe" /\ Variant = "unsafe_called_again"

Again(w) ==  \* straight to the next dispatch: in between it is not "planned", for it may have happened
  /\ At(w, "idle") /\ MayWrite(w) /\ Doubt /\ ~ledger.asked /\ MayCallAgain
  /\ IF Variant = "again_is_planned"
       THEN Write(w, "again", Ended("planned")) /\ UNCHANGED <<worker, fact>>
       ELSE Write(w, "again", Attempt(ledger.attempt + 1, w)) /\ Begins(ledger.attempt + 1, w)
  /\ UNCHANGED <<world, lease, net, outside, budget>>

Ask(w) ==
  /\ At(w, "idle") /\ MayWrite(w) /\ Doubt /\ ~ledger.asked
  /\ world.kind # "probe" /\ ~MayCallAgain
  /\ Write(w, "ask", Asking)
  /\ UNCHANGED <<world, lease, worker, net, outside, fact, budget>>

Look(w) ==  \* the probe: the proof is taken first, then the other side is asked
  /\ world.kind = "probe"
  /\ At(w, "idle") /\ MayWrite(w) /\ Doubt /\ ~ledger.asked
  /\ \E answer \in {"unknown", IF outside.applied > 0 THEN "happened" ELSE IF AbsentIsFinal THEN "absent" ELSE "not yet"} :
       Becomes(w, [worker[w] EXCEPT !.pc = "looked", !.got = answer, !.my = ledger.attempt])
  /\ UNCHANGED <<world, ledger, last, lease, net, outside, fact, budget>>

Found(w) ==
  LET seen == IF Variant = "probe_before_proof" /\ worker[w].got = "not yet" /\ AbsentIsFinal
                THEN "absent" ELSE worker[w].got
  IN /\ At(w, "looked")
     /\ Rests(w)
     /\ IF ~(MayWrite(w) /\ Doubt /\ ledger.attempt = worker[w].my) THEN Nothing
        ELSE CASE seen = "happened" -> Write(w, "probe", Ended("committed"))
               [] seen = "absent" -> Write(w, "probe", Absent)
               [] seen = "not yet" /\ (CannotSend \/ Variant = "nobody_asks") -> Nothing  \* looks again after lands_within
               [] OTHER -> Write(w, "ask", Asking)
     /\ UNCHANGED <<world, lease, net, outside, fact, budget>>

(* A person is believed. The model takes it that one says "absent" only of what is not there and cannot come.  *)
PersonSettles ==
  /\ Doubt
  /\ \/ outside.applied > 0 /\ Write("person", "person", Ended("committed"))
     \/ /\ outside.applied = 0 /\ (Variant = "hasty_person" \/ (net = {} /\ ~MayStillSend))
        /\ Write("person", "person", Absent)
     \/ Write("person", "person", Ended("given up"))
  /\ UNCHANGED <<world, lease, worker, net, outside, fact, budget>>

Withdraw ==  \* by a person, a guard or a cancelled run
  /\ ledger.state = "planned"
  /\ Write("person", "withdraw", Ended("withdrawn"))
  /\ UNCHANGED <<world, lease, worker, net, outside, fact, budget>>

---------------------------------------------------------------------------------------------------------------
(* The outside, and time *)

Deduplicates == world.kind = "keyed" /\ outside.answer # "none"

Arrive(answer) ==
  outside' = [outside EXCEPT !.applied = IF answer = "ok" /\ ~Deduplicates THEN @ + 1 ELSE @,
                             !.answer = IF world.kind = "keyed" THEN answer ELSE @]

Reply(m, answer) ==  \* delivered if the caller still waits for it, or lost
  \/ UNCHANGED worker
  \/ /\ worker[m.from].pc = "awaiting" /\ worker[m.from].my = m.attempt
     /\ Becomes(m.from, [worker[m.from] EXCEPT !.pc = "got", !.got = answer])

Land ==
  \E m \in net : \E answer \in IF Deduplicates THEN {outside.answer} ELSE {"ok", "no"} :
    /\ Arrive(answer) /\ Reply(m, answer)
    /\ net' = net \ {m}
    /\ UNCHANGED <<world, ledger, last, lease, fact, budget>>

Lose ==
  \E m \in net :
    /\ net' = net \ {m}
    /\ UNCHANGED <<world, ledger, last, lease, worker, outside, fact, budget>>

LandingTimePasses ==  \* what was sent before the proof has landed or is lost when lands_within is over
  /\ Doubt /\ world.kind = "probe" /\ ~fact.quiet
  /\ net = {}
  /\ CannotSend \/ Variant = "unproved_death"
  /\ fact' = [fact EXCEPT !.quiet = TRUE]
  /\ UNCHANGED <<world, ledger, last, lease, worker, net, outside, budget>>

RetentionEnds ==  \* the other side forgets the key; assumed: no pause and no request outlives the retention
  /\ world.kind = "keyed" /\ outside.kept
  /\ Variant = "pause_outlives_key" \/ (net = {} /\ ~MayStillSend)
  /\ outside' = [outside EXCEPT !.kept = FALSE, !.answer = "none"]
  /\ UNCHANGED <<world, ledger, last, lease, worker, net, fact, budget>>

---------------------------------------------------------------------------------------------------------------
(* Faults *)

Crash(w) ==  \* and a new process in its place, which may take its time; after settlement a crash can do no harm
  /\ ~Settled
  /\ worker[w] # Process \/ ledger.caller = w
  /\ Becomes(w, Process)
  /\ fact' = [fact EXCEPT !.gone = @ \/ ledger.caller = w]
  /\ Strikes
  /\ UNCHANGED <<world, ledger, last, lease, net, outside>>

---------------------------------------------------------------------------------------------------------------
Works(w) ==
  \/ Claim(w) \/ Dispatch(w) \/ CallUnrecorded(w) \/ ReadThenWrite(w) \/ CheckLease(w) \/ Send(w)
  \/ Result(w) \/ CallEnds(w) \/ MarkDoubt(w) \/ Again(w) \/ Ask(w) \/ Look(w) \/ Found(w)
Passes == Expire \/ LandingTimePasses
Machine == (\E w \in Workers : Works(w)) \/ Passes \/ Land \/ Lose
Chance == Lapse \/ \E w \in Workers : Crash(w) \/ ThreadTimesOut(w)

Next == Machine \/ Chance \/ PersonSettles \/ Withdraw \/ RetentionEnds

(* For the claim that it ends: nobody answers, and nothing has to go wrong. *)
Fairness == (\A w \in Workers : WF_vars(Works(w))) /\ WF_vars(Expire) /\ WF_vars(LandingTimePasses) /\ WF_vars(Land \/ Lose)

Spec == Init /\ [][Next]_vars
FairSpec == Init /\ [][Machine \/ Chance \/ RetentionEnds]_vars /\ Fairness

---------------------------------------------------------------------------------------------------------------
(* Claims *)

AtMostOnce == world.kind # "idempotent" => outside.applied <= 1

IntentBeforeEffect ==
  /\ \A m \in net : m.attempt <= ledger.attempt
  /\ outside.applied > 0 => ledger.attempt > 0

OneDispatchPerAttempt == [][ledger'.state = "dispatched" => ledger'.attempt > ledger.attempt]_ledger

StaleWritesNothing ==
  [][LET w == last'.by
     IN \/ w = "person"
        \/ Valid(w)
        \/ last'.how = "late" /\ OwnUnsettled(w) /\ ledger'.attempt = ledger.attempt]_ledger

CommittedMeansHappened == ledger.state = "committed" => outside.applied > 0
WithdrawnMeansAbsent == ledger.state = "withdrawn" => outside.applied = 0
FailedMeansAbsent ==  \* not claimed of idempotent tools: an older call may still land
  ledger.state = "failed" /\ world.kind # "idempotent" => outside.applied = 0

DoubtOnlyLeftByRule ==
  [][Doubt /\ ledger'.state # "in_doubt" =>
       \/ last'.by = "person"
       \/ last'.how = "late" /\ last'.by = ledger.caller /\ ledger'.attempt = ledger.attempt
       \/ last'.how = "again" /\ (world.kind = "idempotent" \/ (world.kind = "keyed" /\ outside.kept))
       \/ last'.how = "probe" /\ world.kind = "probe"]_ledger

SettledStays == [][~Settled]_ledger

NeverStranded == Settled \/ WaitsForPerson \/ ENABLED Machine  \* where nothing goes on by itself, it has ended or waits
EndsOrAsks == <>(Settled \/ WaitsForPerson)

---------------------------------------------------------------------------------------------------------------
(* States that differ only in what no step reads again are one: which worker is which, how high the tokens   *)
(* are, the last event (claims about steps see it), what is known of callers where no probe will use it.     *)
Standing(w) == IF worker[w].tok = 0 THEN "none" ELSE IF worker[w].tok = lease.token THEN "newest" ELSE "stale"
Sent(w) == {m.attempt : m \in {m \in net : m.from = w}}
View ==
  <<world, [ledger EXCEPT !.caller = "", !.stopped = @ /\ world.kind = "probe"], lease.live,
    {<<Standing(w), worker[w].pc, worker[w].my, worker[w].got, ledger.caller = w, Sent(w)>> : w \in Workers},
    outside, IF world.kind = "probe" THEN fact ELSE <<>>, IF Settled THEN <<>> ELSE budget>>
==============================================================================
