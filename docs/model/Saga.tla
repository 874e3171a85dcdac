--------------------------------- MODULE Saga ---------------------------------
(* Some effects in order, each with an undo; when one fails or the run is cancelled, what was done is undone in *)
(* reverse: promises P4 and P13. An undo is an effect with a dispatch and a doubt of its own.                    *)
(* One worker drives. It crashes at any step, or is replaced while it lives (its lease lapsed) and may send what *)
(* it was about to send later. How a single doubt is settled is in Effects; here a settled doubt tells the truth.*)
(* Each Variant other than "good" takes one rule away and must break one named claim.                            *)
EXTENDS Naturals

CONSTANTS Last, Variant

VARIABLES
  saga,     \* running | undoing | completed | compensated | parked
  row,      \* the ledger: state of each effect
  undo,     \* the ledger: state of each undo, and its attempts
  repeats,  \* which undos are idempotent; fixed at the start
  calls,    \* calls that some living process has yet to send
  net,      \* requests on their way
  reply,    \* what the present driver got back from the call it waits for
  outside   \* per effect: is it there now, how often was it done, how often undone (if that matters)

vars == <<saga, row, undo, repeats, calls, net, reply, outside>>

Effects == 1..Last
Do(i) == [of |-> i, undoes |-> FALSE, attempt |-> 1]  \* a second one is made only when the first cannot arrive
Undo(i, n) == [of |-> i, undoes |-> TRUE, attempt |-> n]
Attempts == 1..2
NoUndo == [state |-> "none", attempt |-> 0]
None == [to |-> Do(0), answer |-> "none"]

Init ==
  /\ saga = "running"
  /\ row = [i \in Effects |-> "planned"]
  /\ undo = [i \in Effects |-> NoUndo]
  /\ repeats \in [Effects -> BOOLEAN]
  /\ Last > 2 => \A i \in 2..Last : repeats[i] # repeats[i - 1]  \* neighbours that are alike: with two
  /\ calls = {} /\ net = {} /\ reply = None
  /\ outside = [i \in Effects |-> [there |-> FALSE, done |-> 0, undone |-> 0]]

---------------------------------------------------------------------------------------------------------------
(* Words *)

Over == saga \in {"completed", "compensated"}
InDoubt(i) == row[i] = "in_doubt" \/ undo[i].state = "in_doubt"
Waiting == reply.to.of # 0
MayArrive(call) == call \in calls \cup net
UndoMayArrive(i) == \E n \in Attempts : MayArrive(Undo(i, n))
Touched(i) == row[i] \in {"dispatched", "in_doubt", "committed", "undoing"}  \* not known to be without effect
NothingLater(i) == \A j \in (i + 1)..Last : ~Touched(j)

Sets(i, state) == row' = [row EXCEPT ![i] = state]
SetsUndo(i, state) == undo' = [undo EXCEPT ![i] = IF state = "none" THEN NoUndo ELSE [@ EXCEPT !.state = state]]
Calls(call) == calls' = calls \cup {call} /\ reply' = [to |-> call, answer |-> "none"]
Hears(call, answer) == reply = [to |-> call, answer |-> answer]
HearsUndo(i, answer) == \E n \in Attempts : Hears(Undo(i, n), answer)

---------------------------------------------------------------------------------------------------------------
(* Forward *)

Dispatch(i) ==
  /\ saga = "running" /\ ~Waiting /\ row[i] = "planned"
  /\ \A j \in Effects : j < i => row[j] = "committed"
  /\ Sets(i, "dispatched") /\ Calls(Do(i))
  /\ UNCHANGED <<saga, undo, repeats, net, outside>>

Commit(i) ==
  /\ Hears(Do(i), "ok") /\ row[i] = "dispatched"
  /\ Sets(i, "committed") /\ reply' = None
  /\ UNCHANGED <<saga, undo, repeats, calls, net, outside>>

Fail(i) ==  \* the tool said no: the saga turns round
  /\ Hears(Do(i), "no") /\ row[i] = "dispatched"
  /\ Sets(i, "failed") /\ reply' = None
  /\ saga' = "undoing"
  /\ UNCHANGED <<undo, repeats, calls, net, outside>>

Cancel ==  \* by a person; whatever is being called is first heard or doubted
  /\ saga = "running" /\ ~Waiting
  /\ saga' = "undoing"
  /\ UNCHANGED <<row, undo, repeats, calls, net, reply, outside>>

Complete ==
  /\ saga = "running" /\ \A i \in Effects : row[i] = "committed"
  /\ saga' = "completed"
  /\ UNCHANGED <<row, undo, repeats, calls, net, reply, outside>>

---------------------------------------------------------------------------------------------------------------
(* Doubt *)

MarkDoubt(i) ==  \* a dispatch that the present driver does not wait for
  /\ ~Waiting /\ Variant # "nobody_sweeps"
  /\ \/ row[i] = "dispatched" /\ Sets(i, "in_doubt") /\ UNCHANGED undo
     \/ undo[i].state = "dispatched" /\ SetsUndo(i, "in_doubt") /\ UNCHANGED row
  /\ UNCHANGED <<saga, repeats, calls, net, reply, outside>>

Settle(i) ==  \* by rule or person, when nothing of it can arrive any more: the truth
  /\ row[i] = "in_doubt" /\ (~MayArrive(Do(i)) \/ Variant = "settled_too_early")
  /\ Sets(i, IF outside[i].there THEN "committed" ELSE IF saga = "running" THEN "planned" ELSE "failed")
  /\ UNCHANGED <<saga, undo, repeats, calls, net, reply, outside>>

SettleUndo(i) ==  \* an undo that is not idempotent; the other one is called again
  /\ undo[i].state = "in_doubt" /\ ~UndoMayArrive(i)
  /\ IF outside[i].there
       THEN SetsUndo(i, "none") /\ UNCHANGED row
       ELSE SetsUndo(i, "committed") /\ Sets(i, "undone")
  /\ UNCHANGED <<saga, repeats, calls, net, reply, outside>>

---------------------------------------------------------------------------------------------------------------
(* Backward *)

MayUndo(i) ==
  \/ row[i] \in {"committed", "undoing"} /\ undo[i].state = "none"
  \/ row[i] = "in_doubt" /\ undo[i].state = "none" /\ repeats[i]
       /\ (~MayArrive(Do(i)) \/ Variant = "undo_races_the_call")
  \/ row[i] = "in_doubt" /\ undo[i].state = "none" /\ Variant = "doubt_undone"
  \/ row[i] = "undoing" /\ undo[i].state = "in_doubt" /\ undo[i].attempt + 1 \in Attempts
       /\ (repeats[i] \/ Variant = "undo_called_again")

Turn(i) ==
  CASE Variant = "order_forward" -> \A j \in Effects : j < i => ~Touched(j)
    [] Variant = "doubt_skipped" -> \A j \in (i + 1)..Last : ~Touched(j) \/ row[j] = "in_doubt"
    [] Variant = "failed_undo_skipped" -> \A j \in (i + 1)..Last : ~Touched(j) \/ undo[j].state = "failed"
    [] OTHER -> NothingLater(i)

BeginUndo(i) ==  \* durable before it is called, like every effect
  /\ saga = "undoing" /\ ~Waiting
  /\ MayUndo(i) /\ Turn(i)
  /\ IF Variant = "undo_unrecorded"
       THEN UNCHANGED <<row, undo>>
       ELSE /\ Sets(i, "undoing")
            /\ undo' = [undo EXCEPT ![i] = [state |-> "dispatched", attempt |-> @.attempt + 1]]
  /\ Calls(Undo(i, undo[i].attempt + 1))
  /\ UNCHANGED <<saga, repeats, net, outside>>

CommitUndo(i) ==
  /\ HearsUndo(i, "ok") /\ (undo[i].state = "dispatched" \/ Variant = "undo_unrecorded")
  /\ Sets(i, "undone") /\ SetsUndo(i, "committed") /\ reply' = None
  /\ UNCHANGED <<saga, repeats, calls, net, outside>>

FailUndo(i) ==  \* parks with its reason
  /\ HearsUndo(i, "no") /\ (undo[i].state = "dispatched" \/ Variant = "undo_unrecorded")
  /\ SetsUndo(i, "failed") /\ reply' = None
  /\ saga' = IF Variant = "failed_undo_skipped" THEN saga ELSE "parked"
  /\ UNCHANGED <<row, repeats, calls, net, outside>>

Unpark(i) ==  \* a person has it tried again, or undid it by hand
  /\ saga = "parked" /\ undo[i].state = "failed"
  /\ \/ SetsUndo(i, "none") /\ Sets(i, IF Variant = "retry_is_committed" THEN "committed" ELSE "undoing") /\ UNCHANGED outside
     \/ /\ SetsUndo(i, "committed") /\ Sets(i, "undone")
        /\ outside' = [outside EXCEPT ![i].there = FALSE]
  /\ saga' = "undoing"
  /\ UNCHANGED <<repeats, calls, net, reply>>

Compensate ==
  /\ saga = "undoing" /\ ~Waiting
  /\ \A i \in Effects : ~Touched(i) \/ (Variant = "doubt_skipped" /\ InDoubt(i))
                                    \/ (Variant = "failed_undo_skipped" /\ undo[i].state = "failed")
  /\ saga' = "compensated"
  /\ row' = [i \in Effects |-> IF row[i] = "planned" THEN "withdrawn" ELSE row[i]]
  /\ UNCHANGED <<undo, repeats, calls, net, reply, outside>>

---------------------------------------------------------------------------------------------------------------
(* Calls, the outside, faults *)

Send ==
  \E call \in calls :
    /\ calls' = calls \ {call} /\ net' = net \cup {call}
    /\ UNCHANGED <<saga, row, undo, repeats, reply, outside>>

Applied(call) ==
  IF call.undoes
    THEN [outside[call.of] EXCEPT !.there = FALSE, !.undone = IF repeats[call.of] THEN @ ELSE @ + 1]
    ELSE [outside[call.of] EXCEPT !.there = TRUE, !.done = @ + 1]

Replies(call, answer) == \/ UNCHANGED reply
                         \/ reply = [to |-> call, answer |-> "none"] /\ reply' = [to |-> call, answer |-> answer]

Land ==  \* applied or refused; the reply may be lost
  \E call \in net :
    /\ net' = net \ {call}
    /\ \/ outside' = [outside EXCEPT ![call.of] = Applied(call)] /\ Replies(call, "ok")
       \/ UNCHANGED outside /\ Replies(call, "no")
    /\ UNCHANGED <<saga, row, undo, repeats, calls>>

LetGo ==  \* at the call's deadline, or another took over after the lease: the call goes on and may send later
  /\ Waiting
  /\ reply' = None
  /\ UNCHANGED <<saga, row, undo, repeats, calls, net, outside>>

Crash ==  \* at any step, as often as it likes; without a call there is nothing that is lost
  /\ Waiting \/ calls # {}
  /\ calls' \in {{}, calls \ {reply.to}} /\ reply' = None  \* calls that were let go die with it, or are elsewhere
  /\ UNCHANGED <<saga, row, undo, repeats, net, outside>>

---------------------------------------------------------------------------------------------------------------
Drives(i) ==
  \/ Dispatch(i) \/ Commit(i) \/ Fail(i) \/ MarkDoubt(i) \/ Settle(i) \/ SettleUndo(i)
  \/ BeginUndo(i) \/ CommitUndo(i) \/ FailUndo(i)
Machine == (\E i \in Effects : Drives(i)) \/ Complete \/ Compensate \/ Send \/ Land \/ LetGo
Next == Machine \/ Cancel \/ Crash \/ \E i \in Effects : Unpark(i)
Spec == Init /\ [][Next]_vars

---------------------------------------------------------------------------------------------------------------
(* Claims *)

UndoIsCalled == ~Waiting /\ reply'.to.undoes

UndoneInReverse ==  \* an undo begins only when nothing later is left that happened or may have
  [][UndoIsCalled => NothingLater(reply'.to.of)]_reply

NothingUndoneTwice == \A i \in Effects : ~repeats[i] => outside[i].undone <= 1
NothingDoneTwice == \A i \in Effects : outside[i].done <= 1

NoUndoOfDoubt ==
  [][UndoIsCalled => row[reply'.to.of] # "in_doubt" \/ repeats[reply'.to.of]]_reply

IntentBeforeUndo == [][UndoIsCalled => undo'[reply'.to.of].state = "dispatched"]_reply

UndoneMeansGone == \A i \in Effects : row[i] = "undone" => ~outside[i].there
CommittedMeansThere == \A i \in Effects : row[i] = "committed" => outside[i].there
CompensatedMeansClean == saga = "compensated" => \A i \in Effects : ~outside[i].there
NeverStranded == Over \/ saga = "parked" \/ ENABLED Machine
==============================================================================
