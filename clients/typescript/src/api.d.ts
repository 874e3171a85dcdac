// Made by tools/typescript_types.py from docs/openapi.json. Do not edit.

/** Records, by name. */
export interface components {
  "About": {
    "pid": number;
    "agents": string[];
    "concurrency": number;
    "supervisor"?: number;
    "suspects"?: boolean;
    "programs"?: string[];
  };
  "ActorRecord": {
    "actor": string;
    "name": string;
  };
  "AnswerInput": {
    "about"?: string[];
    "value": unknown;
  };
  "ArtifactRecord": {
    "seq": number;
    "session": string;
    "name": string;
    "media_type": string;
    "size": number;
    "hash": string;
    "at": string;
    "actor": string;
    "ref": components["Ref"];
  };
  "AskAnswer": {
    "seq": number;
    "stream_kind": string;
    "stream": string;
    "kind": components["WaitKind"];
    "state": components["WaitState"];
    "name": string;
    "question": string;
    "choices": string[];
    "default": unknown;
    "detail": unknown;
    "place": string | null;
    "effect": number | null;
    "digest": string | null;
    "actor": string;
    "at": string;
    "expires_at": string | null;
    "met_by": string | null;
    "met_at": string | null;
    "answer": unknown;
    "ref": components["Ref"];
    "id": string;
  };
  "AskInput": {
    "question": string;
    "choices"?: string[] | null;
    "detail"?: unknown | null;
    "timeout"?: string | null;
    "about"?: string[];
  };
  "BatchInput": {
    "token": number;
  };
  "Call": {
    "id": string;
    "tool": string;
    "args"?: unknown;
  };
  "CheckpointInput": {
    "state": unknown;
    "name"?: string;
    "key"?: string | null;
    "parent"?: string | null;
    "document"?: unknown | null;
    "about"?: string[];
  };
  "CheckpointRecord": {
    "seq": number;
    "name": string;
    "parent": number | null;
    "hash": string;
    "size": number;
    "at": string;
    "actor": string;
    "ref": components["Ref"];
    "key"?: string | null;
    "parent_key"?: string | null;
  };
  "ChildInput": {
    "holder": string;
    "token": number;
    "place": string;
    "agent": string;
    "args"?: unknown[];
    "kwargs"?: Record<string, unknown>;
    "timeout"?: string | null;
    "about"?: string[];
  };
  "ClaimInput": {
    "ttl": string;
    "task"?: number | null;
    "label"?: string | null;
  };
  "CloseInput": {
    "outcome": string;
    "note"?: string | null;
    "about"?: string[];
  };
  "ConfirmInput": {
    "because"?: string | null;
    "about"?: string[];
  };
  "CorrectionInput": {
    "text": string;
    "rule": string;
    "key"?: string | null;
    "source"?: (string | components["Ref"])[];
    "about"?: string[];
    "tags"?: string[];
  };
  "CountAnswer": {
    "count": number;
  };
  "Counts": {
    "streams"?: number;
    "events"?: number;
    "rows"?: number;
    "derived"?: number;
    "blobs"?: number;
    "plain_actors"?: number;
  };
  "Cover": {
    "seq": number;
    "first_seq": number;
    "last_seq": number;
    "text": string;
    "at": string;
    "actor": string;
    "ref"?: unknown;
    "keys"?: string[];
  };
  "CutAnswer": {
    "next": components["Next"];
    "cut": number;
    "cancelling": boolean;
  };
  "CutInput": {
    "holder": string;
    "token": number;
    "cut": number;
    "state": unknown;
    "about"?: string[];
  };
  "DamagedRow": {
    "where": string;
    "reason": string;
  };
  "DecisionInput": {
    "text": string;
    "because": string;
    "then"?: string | null;
    "refs"?: components["Ref"][];
    "tags"?: string[] | null;
    "about"?: string[];
  };
  "DecisionRecord": {
    "seq": number;
    "session": string;
    "text": string;
    "because": string;
    "then": string | null;
    "status": components["DecisionStatus"];
    "outcome": string | null;
    "note": string | null;
    "tags": string[];
    "actor": string;
    "at": string;
    "supersedes": number | null;
    "superseded_by": number | null;
    "refs": components["Ref"][];
    "ref": components["Ref"];
    "changed_at": string;
    "closed_at"?: string | null;
  };
  "DecisionStatus": "closed" | "open" | "superseded";
  "DecisionSupersedeInput": {
    "text": string;
    "because": string;
    "then"?: string | null;
    "refs"?: components["Ref"][];
    "tags"?: string[] | null;
    "about"?: string[];
  };
  "DeliveryAnswer": {
    "events": components["EventAnswer"][];
    "token": number;
    "deliveries": number;
    "more": boolean;
  };
  "Difference": {
    "how": components["How"];
    "name": string;
    "before": unknown;
    "after": unknown;
  };
  "DoneAnswer": {
    "changed"?: boolean;
  };
  "Due": {
    "first_seq": number;
    "last_seq": number;
    "covers"?: components["Cover"][];
  };
  "EffectAnswer": {
    "seq": number;
    "stream_kind": string;
    "stream": string;
    "tool": string;
    "kind": components["ToolKind"];
    "state": components["EffectState"];
    "key": string;
    "digest": string;
    "args": Record<string, unknown>;
    "rule": components["Rule"];
    "attempt": number;
    "holder": string | null;
    "place": string | null;
    "call": string | null;
    "undoes": number | null;
    "epoch": number;
    "actor": string;
    "at": string;
    "dispatched_at": string | null;
    "deadline_at": string | null;
    "quiet_at": string | null;
    "result": unknown;
    "error": components["EffectError"] | null;
    "settled_by": string | null;
    "ref": components["Ref"];
    "mishaps"?: number;
    "first_dispatched_at"?: string | null;
    "unkept"?: string | null;
    "doubtful"?: boolean;
    "sent_key"?: string;
    "what_if"?: boolean;
    "outcome_at"?: string | null;
    "copy"?: boolean;
    "sagas"?: string[] | null;
    "id": string;
    "settled": boolean;
    "left"?: boolean;
  };
  "EffectError": {
    "code": string;
    "message": string;
  };
  "EffectInput": {
    "about"?: string[];
    "tool": string;
    "args"?: Record<string, unknown>;
    "kind"?: "idempotent" | "keyed" | "probed" | "read" | "unsafe";
    "call"?: string | null;
  };
  "EffectState": "committed" | "dispatched" | "failed" | "in_doubt" | "planned" | "undoing" | "undone" | "withdrawn";
  "Entry": {
    "name": string;
    "value": unknown;
    "version": number;
    "updated_at": string;
    "age": number;
    "expires_at": string | null;
    "actor": string;
  };
  "EventAnswer": {
    "seq": number;
    "kind": string;
    "table": string;
    "actor": string;
    "at": string;
    "data": unknown;
    "about": string[];
    "refs": components["Ref"][];
    "session": string;
    "stream_kind": string;
    "uid": string;
    "ref": components["Ref"];
    "body": Record<string, unknown>;
    "emptied": boolean;
  };
  "EventInput": {
    "kind": string;
    "data"?: unknown | null;
    "expect"?: number | null;
    "about"?: string[];
    "refs"?: components["Ref"][];
  };
  "FailInput": {
    "holder": string;
    "token": number;
    "code": string;
    "message"?: string;
    "effect"?: number | null;
    "step"?: string | null;
  };
  "FeedHeldAnswer": {
    "held_by": string | null;
  };
  "Finding": {
    "check": string;
    "severity": components["Severity"];
    "says": string;
    "fix"?: string;
  };
  "FinishInput": {
    "holder": string;
    "token": number;
    "result"?: unknown;
  };
  "ForgetInput": {
    "because": string;
    "about"?: string[];
  };
  "ForkInput": {
    "name": string;
    "at"?: number | string | null;
  };
  "Found": {
    "kind": components["SearchKind"];
    "stream_kind": string;
    "stream": string;
    "seq": number;
    "text": string;
    "actor": string;
    "at": string;
    "score": number;
    "why": components["Why"];
    "ref": components["Ref"];
  };
  "HealthAnswer": {
    "sound": boolean;
    "outgrown": boolean;
    "findings": components["Finding"][];
  };
  "HeartbeatAnswer": {
    "runs": components["HeldAnswer"][];
    "draining": boolean;
    "lease_seconds": number;
  };
  "HeldAnswer": {
    "run": string;
    "token": number;
    "cancelling": boolean;
  };
  "HeldRecord": {
    "run": string;
    "agent": string;
    "parent": string | null;
    "session": string | null;
    "since": string;
    "doing": string;
    "last_at": string;
    "quiet_seconds": number;
    "deaths": number;
    "suspect": boolean;
    "cancelling": boolean;
  };
  "HoldInput": {
    "holder": string;
    "token": number;
  };
  "HolderInput": {
    "holder": string;
  };
  "How": "added" | "changed" | "removed";
  "JournalAnswer": {
    "items": components["JournalItem"][];
    "next": number | null;
  };
  "JournalItem": {
    "place": string;
    "what": string;
    "name": string;
    "digest": string;
    "seq": number;
    "step"?: components["StepRecord"] | null;
    "effect"?: components["EffectAnswer"] | null;
    "wait"?: components["AskAnswer"] | null;
  };
  "LabelsInput": {
    "add"?: string[];
    "remove"?: string[];
  };
  "MemoryInput": {
    "text": string;
    "kind"?: components["MemoryKind"];
    "key"?: string | null;
    "source"?: (string | components["Ref"])[];
    "about"?: string[];
    "tags"?: string[];
    "confidence"?: number | null;
    "valid_from"?: string | null;
    "valid_to"?: string | null;
  };
  "MemoryKind": "correction" | "document" | "fact" | "failed_approach" | "lesson" | "map" | "preference" | "rule" | "snippet" | "vocabulary" | "workflow";
  "MemoryRecord": {
    "seq": number;
    "scope": string;
    "scope_kind": string;
    "kind": components["MemoryKind"];
    "text": string;
    "status": components["MemoryStatus"];
    "key": string | null;
    "tags": string[];
    "about": string[];
    "sources": string[];
    "confidence": number | null;
    "valid_from": string | null;
    "valid_to": string | null;
    "actor": string;
    "at": string;
    "confirmed_at": string | null;
    "supersedes": number | null;
    "superseded_by": number | null;
    "refs": components["Ref"][];
    "ref": components["Ref"];
    "note"?: string | null;
    "uses"?: number;
    "used_at"?: string | null;
    "checks"?: unknown[];
  };
  "MemoryStatus": "forgotten" | "live" | "superseded";
  "MoveInput": {
    "about"?: string[];
    "move": "block" | "cancel" | "done" | "fail" | "release" | "reopen" | "unblock";
    "note"?: string | null;
    "token"?: number | null;
  };
  "Native": {
    "form": string;
    "body": unknown;
  };
  "NativeInput": {
    "form": string;
    "body": unknown;
  };
  "Next": "end" | "given" | "probe" | "rest" | "send";
  "OnChange": "ask" | "continue" | "park";
  "Origin": {
    "session": string | null;
    "uid": string;
    "seq": number;
    "branch"?: string;
  };
  "OutcomeInput": {
    "about"?: string[];
    "outcome": "failed" | "happened";
    "result"?: unknown;
    "attempt"?: number | null;
    "error"?: string;
    "code"?: string;
  };
  "PackManifest": {
    "session": string;
    "uid": string;
    "seq": number;
    "made_at": string;
    "commit": string;
    "budget": number;
    "max_chars": number | null;
    "tokens": number;
    "chars": number;
    "profile": string;
    "shown": components["PackedItem"][];
    "left_out": Record<string, string[]>;
    "notes"?: string[];
  };
  "PackedItem": {
    "section": string;
    "kind": string;
    "id": string;
    "tokens": number;
    "chars": number;
    "at": number;
    "shortened"?: boolean;
    "said"?: string;
    "changed"?: number;
  };
  "Paged_ArtifactRecord_": {
    "items": components["ArtifactRecord"][];
    "next": string | null;
    "damaged"?: components["DamagedRow"][];
  };
  "Paged_AskAnswer_": {
    "items": components["AskAnswer"][];
    "next": string | null;
    "damaged"?: components["DamagedRow"][];
  };
  "Paged_CheckpointRecord_": {
    "items": components["CheckpointRecord"][];
    "next": string | null;
    "damaged"?: components["DamagedRow"][];
  };
  "Paged_DecisionRecord_": {
    "items": components["DecisionRecord"][];
    "next": string | null;
    "damaged"?: components["DamagedRow"][];
  };
  "Paged_EffectAnswer_": {
    "items": components["EffectAnswer"][];
    "next": string | null;
    "damaged"?: components["DamagedRow"][];
  };
  "Paged_Entry_": {
    "items": components["Entry"][];
    "next": string | null;
    "damaged"?: components["DamagedRow"][];
  };
  "Paged_EventAnswer_": {
    "items": components["EventAnswer"][];
    "next": string | null;
    "damaged"?: components["DamagedRow"][];
  };
  "Paged_MemoryRecord_": {
    "items": components["MemoryRecord"][];
    "next": string | null;
    "damaged"?: components["DamagedRow"][];
  };
  "Paged_Reference_": {
    "items": components["Reference"][];
    "next": string | null;
    "damaged"?: components["DamagedRow"][];
  };
  "Paged_RunAnswer_": {
    "items": components["RunAnswer"][];
    "next": string | null;
    "damaged"?: components["DamagedRow"][];
  };
  "Paged_SessionHeader_": {
    "items": components["SessionHeader"][];
    "next": string | null;
    "damaged"?: components["DamagedRow"][];
  };
  "Paged_SubjectRecord_": {
    "items": components["SubjectRecord"][];
    "next": string | null;
    "damaged"?: components["DamagedRow"][];
  };
  "Paged_TaskRecord_": {
    "items": components["TaskRecord"][];
    "next": string | null;
    "damaged"?: components["DamagedRow"][];
  };
  "Paged_TimelineRecord_": {
    "items": components["TimelineRecord"][];
    "next": string | null;
    "damaged"?: components["DamagedRow"][];
  };
  "Paged_Turn_": {
    "items": components["Turn"][];
    "next": string | null;
    "damaged"?: components["DamagedRow"][];
  };
  "ParkInput": {
    "holder": string;
    "token": number;
    "reason": string;
    "message": string;
    "hint"?: string;
  };
  "Pending": {
    "kind": components["PendingKind"];
    "turn": components["Turn"];
    "calls"?: components["Call"][];
  };
  "PendingKind": "answer" | "results";
  "PinInput": {
    "program": string | null;
  };
  "Pins": {
    "model": string | null;
    "prompt": string | null;
    "tools": Record<string, string>;
    "commit": string | null;
    "digest": string;
  };
  "PinsChange": {
    "number": number;
    "moved": Record<string, (string | null)[]>;
    "decision": components["PinsDecision"];
  };
  "PinsDecision": "accepted" | "continued" | "undecided" | "withdrawn";
  "PinsInput": {
    "model"?: string | null;
    "prompt"?: string | null;
    "tools"?: Record<string, string> | null;
    "commit"?: string | null;
  };
  "ProbeInput": {
    "holder": string;
    "token": number;
    "attempt": number;
    "verdict": "absent" | "declined" | "happened" | "unknown";
    "asked_at": number;
    "result"?: unknown;
    "reason"?: string;
  };
  "Problem": {
    "kind": components["ProblemKind"];
    "stream": string;
    "uid": string;
    "seq": number | null;
    "table": string;
    "message": string;
  };
  "Problem9457": {
    "type": string;
    "title": string;
    "status": number;
    "detail": string;
    "path"?: string;
    "hint"?: string;
    "retryable"?: boolean;
    "facts"?: Record<string, string>;
    "values"?: Record<string, unknown>;
  };
  "ProblemKind": "anchor-invalid" | "blob-altered" | "blob-missing" | "body-altered" | "body-emptied" | "cache" | "database-damaged" | "derived-wrong" | "event-altered" | "event-astray" | "event-missing" | "event-moved" | "event-unreadable" | "fork-broken" | "guard-missing" | "head-wrong" | "rewritten" | "row-altered" | "row-missing" | "row-unrecorded" | "set-aside" | "stream-altered" | "stream-missing" | "tail-cut" | "tenant-altered";
  "QueueRecord": {
    "agent": string;
    "known": boolean;
    "ready": number;
    "running": number;
    "waiting": number;
    "parked": number;
    "oldest_ready_at": string | null;
  };
  "ReachedAnswer": {
    "next": components["Next"];
    "cancelling": boolean;
    "why"?: string;
    "awaited"?: number[];
    "wake_at"?: number | null;
    "pause_seconds"?: number;
    "now"?: number;
    "step"?: components["StepRecord"] | null;
    "effect"?: components["EffectAnswer"] | null;
    "wait"?: components["AskAnswer"] | null;
  };
  "Ref": [string, number];
  "Reference": {
    "kind": string;
    "session": string;
    "seq": number;
    "actor": string;
    "at": string;
    "ref": components["Ref"];
  };
  "Report": {
    "problems": components["Problem"][];
    "unverifiable": components["Unverifiable"][];
    "counts": components["Counts"];
    "signature"?: string;
    "left_out"?: number;
    "unnamed"?: string[];
    "quarantined"?: components["Problem"][];
  };
  "RestInput": {
    "holder": string;
    "token": number;
    "reason": "approval" | "ask" | "child" | "doubt" | "landing" | "signal" | "sleep";
    "awaited"?: number[];
    "doubts"?: number[];
    "wake_at"?: number | null;
    "cancelling"?: boolean;
  };
  "ResultInput": {
    "value"?: unknown | null;
    "error"?: boolean;
    "key"?: string | null;
    "native"?: components["NativeInput"] | null;
    "about"?: string[];
  };
  "ResumeInput": {
    "vouch"?: boolean;
  };
  "RetractionInput": {
    "about"?: string[];
    "turns": number[];
    "because"?: string | null;
  };
  "Role": "assistant" | "system" | "tool" | "user";
  "Rule": {
    "timeout"?: number | null;
    "lands_within"?: number;
    "keeps_keys"?: number | null;
    "retries"?: number;
    "undo"?: string;
    "undo_idempotent"?: boolean;
  };
  "RuleInput": {
    "decision": components["Ref"];
    "tags"?: string[] | null;
  };
  "RunAnswer": {
    "id": string;
    "agent": string;
    "status": components["RunStatus"];
    "key": string | null;
    "args": unknown;
    "kwargs": unknown;
    "result": unknown;
    "error": components["EffectError"] | null;
    "session": string | null;
    "parent": string | null;
    "creator": string;
    "created_at": string;
    "ended_at": string | null;
    "wake_at": string | null;
    "timeout_at": string | null;
    "holder": string | null;
    "token": number;
    "deaths": number;
    "suspect": boolean;
    "cancelling": boolean;
    "cuts": number;
    "cut_seq": number;
    "program": string;
    "pinned": boolean;
    "epoch": number;
    "reason": string | null;
    "abandoned": boolean;
    "ref": components["Ref"];
    "what_if"?: components["WhatIf"] | null;
    "hint"?: string;
    "outcome_at"?: string | null;
    "copy"?: boolean;
    "numbering"?: number;
    "pins"?: Record<string, string>;
    "pins_change"?: components["PinsChange"] | null;
    "on_change"?: components["OnChange"] | null;
    "ended": boolean;
  };
  "RunAskInput": {
    "holder": string;
    "token": number;
    "place": string;
    "question": string;
    "choices"?: string[] | null;
    "default"?: unknown;
    "detail"?: unknown;
    "timeout"?: string | null;
    "about"?: string[];
  };
  "RunDiff": {
    "about": components["Difference"][];
    "steps": components["Difference"][];
    "effects": components["Difference"][];
    "waits": components["Difference"][];
  };
  "RunEffectInput": {
    "holder": string;
    "token": number;
    "place": string;
    "tool": string;
    "args"?: Record<string, unknown>;
    "kind"?: "idempotent" | "keyed" | "probed" | "unsafe";
    "timeout"?: string | null;
    "lands_within"?: string | null;
    "keeps_keys"?: string | null;
    "retries"?: number;
    "can_probe"?: boolean;
    "approve"?: string | null;
    "approve_within"?: string | null;
    "about"?: string[];
  };
  "RunForkInput": {
    "at": number | string;
    "replace"?: unknown;
    "allow_effects"?: boolean;
  };
  "RunInput": {
    "about"?: string[];
    "agent": string;
    "args"?: unknown[];
    "kwargs"?: Record<string, unknown>;
    "session"?: string | null;
    "timeout"?: string | null;
    "pins"?: Record<string, unknown>;
    "on_change"?: "ask" | "continue" | "park" | null;
  };
  "RunOutcomeInput": {
    "holder": string;
    "token": number;
    "attempt": number;
    "outcome": "failed" | "happened" | "unknown" | "unsent";
    "result"?: unknown;
    "code"?: string;
    "message"?: string;
    "over"?: boolean;
  };
  "RunStatus": "cancelled" | "completed" | "failed" | "parked" | "ready" | "running" | "waiting";
  "ScopeAnswer": {
    "name": string;
    "uid": string;
  };
  "SearchKind": "decision" | "effect" | "event" | "memory" | "result" | "summary" | "task" | "turn";
  "SessionAnswer": {
    "name": string;
    "title": string;
    "status": components["Status"];
    "creator": string;
    "labels": string[];
    "created_at": string;
    "ended_at": string | null;
    "expires_at": string | null;
    "last_seq": number;
    "last_at": string;
    "archived_at": string | null;
    "copy"?: boolean;
    "goal"?: string | null;
    "pins"?: components["Pins"] | null;
    "uid": string;
  };
  "SessionDiff": {
    "about": components["Difference"][];
    "values": components["Difference"][];
    "tasks": components["Difference"][];
    "decisions": components["Difference"][];
    "checkpoints": components["Difference"][];
    "artifacts": components["Difference"][];
    "turns_added": components["Turn"][];
    "turns_removed": components["Turn"][];
  };
  "SessionHeader": {
    "name": string;
    "title": string;
    "status": components["Status"];
    "creator": string;
    "labels": string[];
    "created_at": string;
    "ended_at": string | null;
    "expires_at": string | null;
    "last_seq": number;
    "last_at": string;
    "archived_at": string | null;
    "copy"?: boolean;
  };
  "SessionInput": {
    "about"?: string[];
    "title"?: string;
    "labels"?: string[];
    "goal"?: string | null;
    "ttl"?: string | null;
    "pins"?: components["PinsInput"] | null;
  };
  "SessionMoveInput": {
    "move": "archive" | "completed" | "failed" | "mark_active" | "mark_waiting" | "reopen" | "unarchive";
  };
  "SessionPatch": {
    "about"?: string[];
    "title"?: string;
    "goal"?: string | null;
    "labels"?: string[];
    "status"?: "active" | "completed" | "failed" | "waiting";
    "archived"?: boolean;
  };
  "SettleInput": {
    "about"?: string[];
    "verdict": "absent" | "declined" | "happened";
    "result"?: unknown;
    "reason"?: string;
    "force"?: boolean;
  };
  "Severity": "error" | "ok" | "warning";
  "SignalInput": {
    "name": string;
    "payload"?: unknown | null;
    "about"?: string[];
  };
  "SleepInput": {
    "holder": string;
    "token": number;
    "place": string;
    "duration": string;
  };
  "StartInput": {
    "start": "beginning" | "end";
  };
  "Status": "active" | "completed" | "crashed" | "failed" | "waiting";
  "StepInput": {
    "holder": string;
    "token": number;
    "place": string;
    "name": string;
    "digest": string;
    "value"?: unknown;
    "error"?: components["EffectError"] | null;
    "shape"?: string;
    "model"?: Record<string, unknown> | null;
    "args"?: unknown[];
    "kwargs"?: Record<string, unknown>;
  };
  "StepRecord": {
    "seq": number;
    "place": string;
    "name": string;
    "digest": string;
    "value": unknown;
    "error": components["EffectError"] | null;
    "notes": Record<string, unknown>;
    "input"?: string | null;
    "gave"?: string | null;
    "shape"?: string;
    "took_us"?: number;
  };
  "StrandedRecord": {
    "run": string;
    "agent": string;
    "program": string;
    "since": string;
  };
  "SubjectRecord": {
    "subject": string;
    "records": number;
    "streams": number;
    "first_at": string;
    "last_at": string;
  };
  "SubjectsInput": {
    "subjects": string[];
  };
  "SubscriptionInput": {
    "start"?: string;
    "kinds"?: string[] | null;
    "stream"?: string | null;
    "consumers"?: number | null;
  };
  "SummaryInput": {
    "upto": number;
    "text": string;
    "first"?: number | null;
    "keys"?: string[] | null;
    "about"?: string[];
  };
  "SupersedeInput": {
    "text": string;
    "because": string;
    "key"?: string | null;
    "kind"?: components["MemoryKind"] | null;
    "source"?: (string | components["Ref"])[];
    "about"?: string[] | null;
    "tags"?: string[] | null;
    "confidence"?: number | null;
    "valid_from"?: string | null;
    "valid_to"?: string | null;
  };
  "TakeInput": {
    "limit"?: number;
    "lease"?: string;
  };
  "TaskInput": {
    "title": string;
    "needs"?: number[];
    "parent"?: number | null;
    "priority"?: number;
    "labels"?: string[];
    "detail"?: unknown | null;
    "key"?: string | null;
    "about"?: string[];
  };
  "TaskPatch": {
    "about"?: string[];
    "title"?: string;
    "priority"?: number;
    "labels"?: string[];
    "detail"?: unknown;
    "parent"?: number | null;
    "need"?: number | null;
    "unneed"?: number | null;
    "token"?: number | null;
  };
  "TaskRecord": {
    "id": number;
    "session": string;
    "title": string;
    "status": components["TaskStatus"];
    "priority": number;
    "parent": number | null;
    "needs": number[];
    "labels": string[];
    "detail": unknown;
    "note": string | null;
    "actor": string;
    "at": string;
    "holder": string | null;
    "claimed_by": string | null;
    "claim_expires_at": string | null;
    "token": number;
    "abandoned": boolean;
    "ref": components["Ref"];
    "changed_at": string;
    "closed_at"?: string | null;
    "key"?: string | null;
  };
  "TaskStatus": "blocked" | "cancelled" | "doing" | "done" | "failed" | "todo";
  "TimelineRecord": {
    "seq": number;
    "at": string;
    "kind": string;
    "actor": string;
    "about": string;
    "place": string;
    "of": number | null;
    "said": unknown;
  };
  "TokenAnswer": {
    "token": string;
    "record": components["TokenRecord"];
  };
  "TokenInput": {
    "role": "admin" | "auditor" | "operator" | "viewer" | "worker" | "writer";
    "actor": string;
    "expires"?: string | null;
  };
  "TokenRecord": {
    "id": string;
    "tenant": string;
    "role": components["TokenRole"];
    "actor": string;
    "made_by": string;
    "made_at": string;
    "expires_at": string | null;
    "used_at"?: string | null;
    "expired"?: boolean;
  };
  "TokenRole": "admin" | "auditor" | "operator" | "viewer" | "worker" | "writer";
  "ToolKind": "idempotent" | "keyed" | "probed" | "read" | "unsafe";
  "Turn": {
    "seq": number;
    "role": components["Role"];
    "content": unknown;
    "calls": components["Call"][];
    "at": string;
    "actor": string;
    "key"?: string | null;
    "call"?: string | null;
    "error"?: boolean;
    "ref"?: unknown;
    "origin"?: unknown;
    "shown"?: components["Ref"][];
    "native"?: components["Native"] | null;
    "usage"?: Record<string, unknown> | null;
    "model"?: string | null;
    "parent"?: number | null;
  };
  "TurnInput": {
    "role": "assistant" | "system" | "user";
    "content"?: unknown | null;
    "calls"?: components["Call"][];
    "about"?: string[];
    "shown"?: components["Ref"][];
    "native"?: components["NativeInput"] | null;
    "usage"?: Record<string, unknown> | null;
    "model"?: string | null;
    "parent"?: number | null;
  };
  "Unverifiable": {
    "stream": string;
    "uid": string;
    "seq": number;
  };
  "ValueInput": {
    "value": unknown;
    "ttl"?: string | null;
    "about"?: string[];
    "derived"?: boolean;
  };
  "WaitInput": {
    "holder": string;
    "token": number;
    "place": string;
    "name": string;
    "timeout"?: string | null;
  };
  "WaitKind": "approval" | "ask" | "child" | "signal" | "sleep";
  "WaitState": "expired" | "met" | "open" | "withdrawn";
  "WhatIf": {
    "run": string;
    "uid": string;
    "seq": number;
    "place": string;
    "acts": boolean;
  };
  "WhoAnswer": {
    "token": string;
    "tenant": string;
    "role": string;
    "actor": string;
    "rights": string[];
    "expires_at": string | null;
    "store": string;
    "epoch": number;
    "version": string;
  };
  "Why": {
    "words": string[];
    "lent": string[];
    "age": number;
    "source": string;
    "vector"?: number | null;
    "user_said"?: boolean;
  };
  "WhyInput": {
    "why"?: string;
  };
  "WorkClaimAnswer": {
    "run": string;
    "token": number;
    "agent": string;
    "args": unknown[];
    "kwargs": Record<string, unknown>;
    "session": string | null;
    "cut": number;
    "has_checkpoint": boolean;
    "restored": unknown;
    "cancelling": boolean;
    "timeout_at": string | null;
    "lease_seconds": number;
    "journal": components["JournalAnswer"];
  };
  "WorkClaimInput": {
    "holder": string;
    "agents": Record<string, string>;
    "pins"?: Record<string, Record<string, unknown>>;
    "on_change"?: Record<string, "ask" | "continue" | "park">;
    "held"?: string[];
    "concurrency"?: number;
    "wait"?: number;
  };
  "WorkerRecord": {
    "holder": string;
    "actor": string;
    "host": string;
    "started_at": string | null;
    "alive": boolean;
    "about": components["About"] | null;
    "runs": components["HeldRecord"][];
  };
  "WorkersRecord": {
    "at": string;
    "workers": components["WorkerRecord"][];
    "queue": components["QueueRecord"][];
    "stranded"?: components["StrandedRecord"][];
  };
  "WorkflowInput": {
    "run": string;
    "text"?: string | null;
    "tags"?: string[];
  };
}

/** What each operation takes and gives. */
export interface operations {
  acknowledge: { path: { name: string | number }; query: {  }; body: components["BatchInput"]; answer: components["DoneAnswer"] };
  add_run_subjects: { path: { run: string | number }; query: {  }; body: components["SubjectsInput"]; answer: string[] };
  add_scope_subjects: { path: { scope: string | number }; query: {  }; body: components["SubjectsInput"]; answer: string[] };
  add_subjects: { path: { session: string | number }; query: {  }; body: components["SubjectsInput"]; answer: string[] };
  add_task: { path: { session: string | number }; query: {  }; body: components["TaskInput"]; answer: components["TaskRecord"] };
  answer_ask: { path: { ask: string | number }; query: {  }; body: components["AnswerInput"]; answer: components["AskAnswer"] };
  ask: { path: { session: string | number }; query: {  }; body: components["AskInput"]; answer: components["AskAnswer"] };
  begin_effect: { path: { session: string | number }; query: {  }; body: components["EffectInput"]; answer: components["EffectAnswer"] };
  begin_run_effect: { path: { run: string | number }; query: {  }; body: components["RunEffectInput"]; answer: components["ReachedAnswer"] };
  boot: { path: { session: string | number }; query: { budget?: number, task?: string | null, max_chars?: number | null, profile?: "full" | "small" | "without-memory" }; body: unknown; answer: Record<string, unknown> | null };
  cancel_run: { path: { run: string | number }; query: {  }; body: components["WhyInput"]; answer: components["RunAnswer"] };
  change_labels: { path: { session: string | number }; query: {  }; body: components["LabelsInput"]; answer: string[] };
  claim_task: { path: { session: string | number }; query: {  }; body: components["ClaimInput"]; answer: components["TaskRecord"] | null };
  claim_work: { path: {  }; query: {  }; body: components["WorkClaimInput"]; answer: components["WorkClaimAnswer"] | null };
  close_decision: { path: { session: string | number, seq: string | number }; query: {  }; body: components["CloseInput"]; answer: components["DecisionRecord"] };
  confirm_memory: { path: { session: string | number, seq: string | number }; query: {  }; body: components["ConfirmInput"]; answer: components["MemoryRecord"] };
  confirm_scope_memory: { path: { scope: string | number, seq: string | number }; query: {  }; body: components["ConfirmInput"]; answer: components["MemoryRecord"] };
  console_anchors: { path: {  }; query: {  }; body: unknown; answer: Record<string, unknown> | null };
  console_counts: { path: {  }; query: {  }; body: unknown; answer: Record<string, unknown> | null };
  console_effects: { path: {  }; query: { limit?: number, after?: string | null, about?: string | null, since?: string | null, until?: string | null, in_doubt?: boolean, state?: "committed" | "dispatched" | "failed" | "in_doubt" | "planned" | "undoing" | "undone" | "withdrawn" | null, tool?: string | null, errors?: boolean, what_if?: boolean, text?: string }; body: unknown; answer: Record<string, unknown> | null };
  console_event: { path: { run: string | number, seq: string | number }; query: {  }; body: unknown; answer: Record<string, unknown> | null };
  console_events: { path: {  }; query: { limit?: number, after?: string | null, about?: string | null, since?: string | null, until?: string | null, kind?: string | null, actor?: string | null, session?: string | null, run?: string | null, emitted?: boolean | null }; body: unknown; answer: Record<string, unknown> | null };
  console_forecast: { path: { run: string | number }; query: { place: string, allow_effects?: boolean }; body: unknown; answer: Record<string, unknown> | null };
  console_inbox: { path: {  }; query: {  }; body: unknown; answer: Record<string, unknown> | null };
  console_live: { path: {  }; query: {  }; body: unknown; answer: unknown | null };
  console_memories: { path: {  }; query: { limit?: number, after?: string | null, about?: string | null, since?: string | null, until?: string | null, kind?: "correction" | "document" | "fact" | "failed_approach" | "lesson" | "map" | "preference" | "rule" | "snippet" | "vocabulary" | "workflow" | null, status?: "all" | "forgotten" | "live" | "superseded", unread?: boolean, tag?: string | null, actor?: string | null, q?: string }; body: unknown; answer: Record<string, unknown> | null };
  console_now: { path: {  }; query: {  }; body: unknown; answer: Record<string, unknown> | null };
  console_outline: { path: { run: string | number }; query: {  }; body: unknown; answer: Record<string, unknown> | null };
  console_provenance: { path: {  }; query: { scope: string, scope_kind: string, seq: number }; body: unknown; answer: Record<string, unknown> | null };
  console_run: { path: { run: string | number }; query: {  }; body: unknown; answer: Record<string, unknown> | null };
  console_run_at: { path: { run: string | number, seq: string | number }; query: {  }; body: unknown; answer: Record<string, unknown> | null };
  console_runs: { path: {  }; query: { limit?: number, after?: string | null, about?: string | null, since?: string | null, until?: string | null, status?: "cancelled" | "completed" | "failed" | "parked" | "ready" | "running" | "waiting" | null, agent?: string | null, session?: string | null, parent?: string | null, version?: string | null, errors?: boolean }; body: unknown; answer: Record<string, unknown> | null };
  console_session: { path: { session: string | number }; query: { at?: number | null }; body: unknown; answer: Record<string, unknown> | null };
  console_session_forecast: { path: { session: string | number }; query: { at?: number | null }; body: unknown; answer: Record<string, unknown> | null };
  console_sessions: { path: {  }; query: { limit?: number, after?: string | null, about?: string | null, since?: string | null, until?: string | null, status?: "active" | "completed" | "crashed" | "failed" | "waiting" | null, label?: string | null, creator?: string | null, expired?: boolean, archived?: boolean }; body: unknown; answer: Record<string, unknown> | null };
  console_settings: { path: {  }; query: {  }; body: unknown; answer: Record<string, unknown> | null };
  console_start_verify: { path: {  }; query: {  }; body: unknown; answer: unknown };
  console_turns: { path: { session: string | number }; query: { before: number }; body: unknown; answer: Record<string, unknown> | null };
  console_verify: { path: {  }; query: {  }; body: unknown; answer: Record<string, unknown> | null };
  correct: { path: { session: string | number }; query: {  }; body: components["CorrectionInput"]; answer: components["MemoryRecord"] };
  correct_in_scope: { path: { scope: string | number }; query: {  }; body: components["CorrectionInput"]; answer: components["MemoryRecord"] };
  create_token: { path: {  }; query: {  }; body: components["TokenInput"]; answer: components["TokenAnswer"] };
  cut_run: { path: { run: string | number }; query: {  }; body: components["CutInput"]; answer: components["CutAnswer"] };
  decide: { path: { session: string | number }; query: {  }; body: components["DecisionInput"]; answer: components["DecisionRecord"] };
  diff_runs: { path: { run: string | number }; query: { at?: string | null, other?: string | null, other_at?: string | null }; body: unknown; answer: components["RunDiff"] | null };
  diff_sessions: { path: { session: string | number }; query: { at?: string | null, other?: string | null, other_at?: string | null }; body: unknown; answer: components["SessionDiff"] | null };
  dispatch_effect: { path: { effect: string | number }; query: {  }; body: unknown; answer: components["EffectAnswer"] };
  emit: { path: { session: string | number }; query: {  }; body: components["EventInput"]; answer: components["EventAnswer"] };
  end_effect: { path: { effect: string | number }; query: {  }; body: components["OutcomeInput"]; answer: components["EffectAnswer"] };
  fail_run: { path: { run: string | number }; query: {  }; body: components["FailInput"]; answer: components["RunAnswer"] };
  finish_run: { path: { run: string | number }; query: {  }; body: components["FinishInput"]; answer: components["RunAnswer"] };
  follow: { path: {  }; query: { after?: string | null, kinds?: string | null, session?: string | null, run?: string | null, form?: "ag-ui" | "events" | "news" }; body: unknown; answer: unknown | null };
  forget_memory: { path: { session: string | number, seq: string | number }; query: {  }; body: components["ForgetInput"]; answer: components["MemoryRecord"] };
  forget_scope_memory: { path: { scope: string | number, seq: string | number }; query: {  }; body: components["ForgetInput"]; answer: components["MemoryRecord"] };
  fork_run: { path: { run: string | number }; query: {  }; body: components["RunForkInput"]; answer: components["RunAnswer"] };
  fork_session: { path: { session: string | number }; query: {  }; body: components["ForkInput"]; answer: components["SessionAnswer"] };
  get_artifact: { path: { hash: string | number }; query: {  }; body: unknown; answer: components["ArtifactRecord"] | null };
  get_ask: { path: { ask: string | number }; query: { wait?: number }; body: unknown; answer: components["AskAnswer"] | null };
  get_checkpoint_state: { path: { session: string | number, seq: string | number }; query: { at?: string | null }; body: unknown; answer: unknown | null };
  get_content: { path: { hash: string | number }; query: {  }; body: unknown; answer: unknown | null };
  get_decision: { path: { session: string | number, seq: string | number }; query: { at?: string | null }; body: unknown; answer: components["DecisionRecord"] | null };
  get_due: { path: { session: string | number }; query: { width?: number, fan?: number, at?: string | null }; body: unknown; answer: components["Due"] | null | null };
  get_effect: { path: { effect: string | number }; query: {  }; body: unknown; answer: components["EffectAnswer"] | null };
  get_envelope: { path: { run: string | number }; query: {  }; body: unknown; answer: Record<string, unknown> | null };
  get_health: { path: {  }; query: {  }; body: unknown; answer: components["HealthAnswer"] | null };
  get_held: { path: {  }; query: {  }; body: unknown; answer: components["FeedHeldAnswer"] | null };
  get_line: { path: { session: string | number, seq: string | number }; query: { limit?: number, at?: string | null }; body: unknown; answer: components["Turn"][] | null };
  get_memory: { path: { session: string | number, seq: string | number }; query: { at?: string | null }; body: unknown; answer: components["MemoryRecord"] | null };
  get_metrics: { path: {  }; query: {  }; body: unknown; answer: unknown | null };
  get_origin: { path: { session: string | number }; query: { at?: string | null }; body: unknown; answer: components["Origin"] | null | null };
  get_pending: { path: { session: string | number }; query: { at?: string | null }; body: unknown; answer: components["Pending"] | null | null };
  get_result: { path: { session: string | number, call: string | number }; query: { at?: string | null }; body: unknown; answer: components["Turn"] | null | null };
  get_run: { path: { run: string | number }; query: { at?: string | null }; body: unknown; answer: components["RunAnswer"] | null };
  get_run_result: { path: { run: string | number }; query: { wait?: number }; body: unknown; answer: components["RunAnswer"] | null };
  get_said: { path: { session: string | number, key: string | number }; query: { at?: string | null }; body: unknown; answer: components["Turn"] | null | null };
  get_scope: { path: { scope: string | number }; query: { at?: string | null }; body: unknown; answer: components["ScopeAnswer"] | null };
  get_scope_memory: { path: { scope: string | number, seq: string | number }; query: { at?: string | null }; body: unknown; answer: components["MemoryRecord"] | null };
  get_scope_value: { path: { scope: string | number, name: string | number }; query: { at?: string | null }; body: unknown; answer: components["Entry"] | null };
  get_session: { path: { session: string | number }; query: { at?: string | null }; body: unknown; answer: components["SessionAnswer"] | null };
  get_state: { path: { session: string | number }; query: { name?: string, key?: string | null, at?: string | null }; body: unknown; answer: unknown | null };
  get_task: { path: { session: string | number, task: string | number }; query: { at?: string | null }; body: unknown; answer: components["TaskRecord"] | null };
  get_transcript: { path: { session: string | number }; query: { at?: string | null, format?: "anthropic" | "openai", full?: boolean, last?: number | null }; body: unknown; answer: Record<string, unknown> | null };
  get_value: { path: { session: string | number, name: string | number }; query: { at?: string | null }; body: unknown; answer: components["Entry"] | null };
  get_workers: { path: {  }; query: {  }; body: unknown; answer: components["WorkersRecord"] | null };
  give_back: { path: { name: string | number }; query: {  }; body: components["BatchInput"]; answer: components["DoneAnswer"] };
  heartbeat: { path: {  }; query: {  }; body: components["HolderInput"]; answer: components["HeartbeatAnswer"] };
  is_waiting: { path: { name: string | number }; query: {  }; body: unknown; answer: components["DoneAnswer"] | null };
  leave_work: { path: {  }; query: {  }; body: components["HolderInput"]; answer: components["HeartbeatAnswer"] };
  list_actors: { path: {  }; query: {  }; body: unknown; answer: components["ActorRecord"][] | null };
  list_artifacts: { path: {  }; query: { limit?: number, after?: string | null, about?: string | null, since?: string | null, until?: string | null, name?: string | null, media_type?: string | null, actor?: string | null }; body: unknown; answer: components["Paged_ArtifactRecord_"] | null };
  list_asks: { path: {  }; query: { limit?: number, after?: string | null, about?: string | null, state?: "all" | "expired" | "met" | "open" | "withdrawn", session?: string | null, wait?: number }; body: unknown; answer: components["Paged_AskAnswer_"] | null };
  list_boots: { path: { session: string | number }; query: { at?: string | null }; body: unknown; answer: components["PackManifest"][] | null };
  list_checkpoints: { path: { session: string | number }; query: { name?: string | null, about?: string | null, limit?: number, after?: string | null, at?: string | null }; body: unknown; answer: components["Paged_CheckpointRecord_"] | null };
  list_decisions: { path: {  }; query: { limit?: number, after?: string | null, about?: string | null, since?: string | null, until?: string | null, status?: "closed" | "open" | "superseded" | null, actor?: string | null, tag?: string | null }; body: unknown; answer: components["Paged_DecisionRecord_"] | null };
  list_effects: { path: {  }; query: { limit?: number, after?: string | null, about?: string | null, since?: string | null, until?: string | null, in_doubt?: boolean, state?: "committed" | "dispatched" | "failed" | "in_doubt" | "planned" | "undoing" | "undone" | "withdrawn" | null, tool?: string | null, errors?: boolean, what_if?: boolean }; body: unknown; answer: components["Paged_EffectAnswer_"] | null };
  list_events: { path: {  }; query: { limit?: number, after?: string | null, about?: string | null, since?: string | null, until?: string | null, kind?: string | null, actor?: string | null, session?: string | null, run?: string | null, emitted?: boolean | null }; body: unknown; answer: components["Paged_EventAnswer_"] | null };
  list_lacking: { path: { session: string | number, seq: string | number }; query: { at?: string | null }; body: unknown; answer: string[] | null };
  list_memories: { path: {  }; query: { limit?: number, after?: string | null, about?: string | null, since?: string | null, until?: string | null, kind?: "correction" | "document" | "fact" | "failed_approach" | "lesson" | "map" | "preference" | "rule" | "snippet" | "vocabulary" | "workflow" | null, status?: "all" | "forgotten" | "live" | "superseded", unread?: boolean, tag?: string | null, actor?: string | null }; body: unknown; answer: components["Paged_MemoryRecord_"] | null };
  list_referring: { path: { session: string | number, seq: string | number }; query: { limit?: number, after?: string | null }; body: unknown; answer: components["Paged_Reference_"] | null };
  list_referring_to: { path: { session: string | number }; query: { limit?: number, after?: string | null, uid: string, seq: number }; body: unknown; answer: components["Paged_Reference_"] | null };
  list_run_effects: { path: { run: string | number }; query: { after?: number, open?: boolean, at?: string | null }; body: unknown; answer: components["EffectAnswer"][] | null };
  list_run_waits: { path: { run: string | number }; query: { at?: string | null }; body: unknown; answer: components["AskAnswer"][] | null };
  list_runs: { path: {  }; query: { limit?: number, after?: string | null, about?: string | null, since?: string | null, until?: string | null, status?: "cancelled" | "completed" | "failed" | "parked" | "ready" | "running" | "waiting" | null, agent?: string | null, session?: string | null, parent?: string | null, version?: string | null, errors?: boolean, key?: string | null }; body: unknown; answer: components["Paged_RunAnswer_"] | null };
  list_scope_memories: { path: { scope: string | number }; query: { limit?: number, after?: string | null, about?: string | null, kind?: "correction" | "document" | "fact" | "failed_approach" | "lesson" | "map" | "preference" | "rule" | "snippet" | "vocabulary" | "workflow" | null, status?: "all" | "forgotten" | "live" | "superseded", unread?: boolean, tag?: string | null, at?: string | null }; body: unknown; answer: components["Paged_MemoryRecord_"] | null };
  list_scope_values: { path: { scope: string | number }; query: { prefix?: string | null, about?: string | null, limit?: number, after?: string | null, at?: string | null }; body: unknown; answer: components["Paged_Entry_"] | null };
  list_session_artifacts: { path: { session: string | number }; query: { name?: string | null, about?: string | null, limit?: number, after?: string | null, at?: string | null }; body: unknown; answer: components["Paged_ArtifactRecord_"] | null };
  list_session_decisions: { path: { session: string | number }; query: { limit?: number, after?: string | null, about?: string | null, open?: boolean | null, tag?: string | null, at?: string | null }; body: unknown; answer: components["Paged_DecisionRecord_"] | null };
  list_session_effects: { path: { session: string | number }; query: { limit?: number, after?: string | null, at?: string | null, about?: string | null, open?: boolean }; body: unknown; answer: components["Paged_EffectAnswer_"] | null };
  list_session_events: { path: { session: string | number }; query: { limit?: number, after?: string | null, at?: string | null, about?: string | null, kind?: string | null, emitted?: boolean | null }; body: unknown; answer: components["Paged_EventAnswer_"] | null };
  list_session_memories: { path: { session: string | number }; query: { limit?: number, after?: string | null, about?: string | null, kind?: "correction" | "document" | "fact" | "failed_approach" | "lesson" | "map" | "preference" | "rule" | "snippet" | "vocabulary" | "workflow" | null, status?: "all" | "forgotten" | "live" | "superseded", unread?: boolean, tag?: string | null, at?: string | null }; body: unknown; answer: components["Paged_MemoryRecord_"] | null };
  list_session_tasks: { path: { session: string | number }; query: { limit?: number, after?: string | null, about?: string | null, status?: "blocked" | "cancelled" | "doing" | "done" | "failed" | "todo" | null, label?: string | null, parent?: number | null, stuck?: boolean, at?: string | null, ready?: boolean }; body: unknown; answer: components["Paged_TaskRecord_"] | null };
  list_sessions: { path: {  }; query: { limit?: number, after?: string | null, about?: string | null, since?: string | null, until?: string | null, status?: "active" | "completed" | "crashed" | "failed" | "waiting" | null, label?: string | null, creator?: string | null, expired?: boolean, archived?: boolean }; body: unknown; answer: components["Paged_SessionHeader_"] | null };
  list_steps: { path: { run: string | number }; query: { after?: number | null, at?: string | null }; body: unknown; answer: components["StepRecord"][] | null };
  list_subjects: { path: {  }; query: { limit?: number, after?: string | null }; body: unknown; answer: components["Paged_SubjectRecord_"] | null };
  list_summaries: { path: { session: string | number }; query: { nested?: boolean, about?: string | null, at?: string | null }; body: unknown; answer: components["Cover"][] | null };
  list_tasks: { path: {  }; query: { limit?: number, after?: string | null, about?: string | null, since?: string | null, until?: string | null, status?: "blocked" | "cancelled" | "doing" | "done" | "failed" | "todo" | null, label?: string | null, actor?: string | null, stuck?: boolean }; body: unknown; answer: components["Paged_TaskRecord_"] | null };
  list_timeline: { path: { run: string | number }; query: { last?: number, before?: string | null, at?: string | null }; body: unknown; answer: components["Paged_TimelineRecord_"] | null };
  list_tokens: { path: {  }; query: {  }; body: unknown; answer: components["TokenRecord"][] | null };
  list_turns: { path: { session: string | number }; query: { at?: string | null, about?: string | null, limit?: number, last?: number | null, after?: string | null, before?: string | null }; body: unknown; answer: components["Paged_Turn_"] | null };
  list_values: { path: { session: string | number }; query: { prefix?: string | null, about?: string | null, limit?: number, after?: string | null, at?: string | null }; body: unknown; answer: components["Paged_Entry_"] | null };
  move_session: { path: { session: string | number }; query: {  }; body: components["SessionMoveInput"]; answer: components["SessionAnswer"] };
  move_task: { path: { session: string | number, task: string | number }; query: {  }; body: components["MoveInput"]; answer: components["TaskRecord"] };
  open_run_ask: { path: { run: string | number }; query: {  }; body: components["RunAskInput"]; answer: components["ReachedAnswer"] };
  open_sleep: { path: { run: string | number }; query: {  }; body: components["SleepInput"]; answer: components["ReachedAnswer"] };
  open_wait: { path: { run: string | number }; query: {  }; body: components["WaitInput"]; answer: components["ReachedAnswer"] };
  park_run: { path: { run: string | number }; query: {  }; body: components["ParkInput"]; answer: components["RunAnswer"] };
  patch_session: { path: { session: string | number }; query: {  }; body: components["SessionPatch"]; answer: components["SessionAnswer"] };
  patch_task: { path: { session: string | number, task: string | number }; query: {  }; body: components["TaskPatch"]; answer: components["TaskRecord"] };
  pin_run: { path: { run: string | number }; query: {  }; body: components["PinInput"]; answer: components["RunAnswer"] };
  pin_session: { path: { session: string | number }; query: {  }; body: components["PinsInput"]; answer: components["Pins"] };
  put_artifact: { path: { session: string | number, name: string | number }; query: { about?: string[] | null, media_type?: string | null }; body: unknown; answer: components["ArtifactRecord"] };
  put_result: { path: { session: string | number, call: string | number }; query: {  }; body: components["ResultInput"]; answer: components["Turn"] };
  put_scope: { path: { scope: string | number }; query: {  }; body: unknown; answer: components["ScopeAnswer"] };
  put_session: { path: { session: string | number }; query: {  }; body: components["SessionInput"]; answer: components["SessionAnswer"] };
  put_subscription: { path: { name: string | number }; query: {  }; body: components["SubscriptionInput"]; answer: components["DoneAnswer"] };
  read_feed: { path: {  }; query: { limit?: number, after?: string | null, wait?: number }; body: unknown; answer: components["Paged_EventAnswer_"] | null };
  read_journal: { path: { run: string | number }; query: { after?: number, limit?: number }; body: unknown; answer: components["JournalAnswer"] | null };
  recall: { path: { session: string | number }; query: { q: string, k?: number, kinds?: string[] | null, scopes?: string[] | null, tags?: string[] | null, about?: string[] | null, since?: string | null, at?: string | null }; body: unknown; answer: Record<string, unknown>[] | null };
  recall_across: { path: {  }; query: { q: string, k?: number, kinds?: string[] | null, scopes?: string[] | null, tags?: string[] | null, about?: string[] | null, since?: string | null, at?: string | null }; body: unknown; answer: Record<string, unknown>[] | null };
  recall_in_scope: { path: { scope: string | number }; query: { q: string, k?: number, kinds?: string[] | null, scopes?: string[] | null, tags?: string[] | null, about?: string[] | null, since?: string | null, at?: string | null }; body: unknown; answer: Record<string, unknown>[] | null };
  record_step: { path: { run: string | number }; query: {  }; body: components["StepInput"]; answer: components["ReachedAnswer"] };
  release_run: { path: { run: string | number }; query: {  }; body: components["HoldInput"]; answer: components["RunAnswer"] };
  remember: { path: { session: string | number }; query: {  }; body: components["MemoryInput"]; answer: components["MemoryRecord"] };
  remember_in_scope: { path: { scope: string | number }; query: {  }; body: components["MemoryInput"]; answer: components["MemoryRecord"] };
  reset_subscription: { path: { name: string | number }; query: {  }; body: components["StartInput"]; answer: components["DoneAnswer"] };
  rest_run: { path: { run: string | number }; query: {  }; body: components["RestInput"]; answer: components["RunAnswer"] };
  resume_run: { path: { run: string | number }; query: {  }; body: components["ResumeInput"]; answer: components["RunAnswer"] };
  retract: { path: { session: string | number }; query: {  }; body: components["RetractionInput"]; answer: components["CountAnswer"] };
  retry_run: { path: { run: string | number }; query: {  }; body: unknown; answer: components["RunAnswer"] };
  revoke_token: { path: { token: string | number }; query: {  }; body: unknown; answer: components["DoneAnswer"] };
  rule_from: { path: { session: string | number }; query: {  }; body: components["RuleInput"]; answer: components["MemoryRecord"] };
  rule_in_scope: { path: { scope: string | number }; query: {  }; body: components["RuleInput"]; answer: components["MemoryRecord"] };
  save_checkpoint: { path: { session: string | number }; query: {  }; body: components["CheckpointInput"]; answer: components["CheckpointRecord"] };
  say: { path: { session: string | number }; query: {  }; body: components["TurnInput"]; answer: components["Turn"] };
  search: { path: {  }; query: { kinds?: string[] | null, session?: string | null, scopes?: string[] | null, actor?: string | null, tags?: string[], about?: string[], since?: string | null, until?: string | null, limit?: number, q: string, kind?: "decision" | "effect" | "event" | "memory" | "result" | "summary" | "task" | "turn" | null }; body: unknown; answer: components["Found"][] | null };
  set_scope_value: { path: { scope: string | number, name: string | number }; query: {  }; body: components["ValueInput"]; answer: components["Entry"] };
  set_value: { path: { session: string | number, name: string | number }; query: {  }; body: components["ValueInput"]; answer: components["Entry"] };
  settle_effect: { path: { effect: string | number }; query: {  }; body: components["SettleInput"]; answer: components["EffectAnswer"] };
  signal_run: { path: { run: string | number }; query: {  }; body: components["SignalInput"]; answer: components["DoneAnswer"] };
  start_child: { path: { run: string | number }; query: {  }; body: components["ChildInput"]; answer: components["ReachedAnswer"] };
  start_run: { path: {  }; query: {  }; body: components["RunInput"]; answer: components["RunAnswer"] };
  summarise: { path: { session: string | number }; query: {  }; body: components["SummaryInput"]; answer: components["Cover"] };
  supersede_decision: { path: { session: string | number, seq: string | number }; query: {  }; body: components["DecisionSupersedeInput"]; answer: components["DecisionRecord"] };
  supersede_memory: { path: { session: string | number, seq: string | number }; query: {  }; body: components["SupersedeInput"]; answer: components["MemoryRecord"] };
  supersede_scope_memory: { path: { scope: string | number, seq: string | number }; query: {  }; body: components["SupersedeInput"]; answer: components["MemoryRecord"] };
  take_batch: { path: { name: string | number }; query: {  }; body: components["TakeInput"]; answer: components["DeliveryAnswer"] };
  tell_outcome: { path: { run: string | number, seq: string | number }; query: {  }; body: components["RunOutcomeInput"]; answer: components["ReachedAnswer"] };
  tell_probe: { path: { run: string | number, seq: string | number }; query: {  }; body: components["ProbeInput"]; answer: components["ReachedAnswer"] };
  unpark_run: { path: { run: string | number }; query: {  }; body: unknown; answer: components["RunAnswer"] };
  unpark_session: { path: { session: string | number }; query: {  }; body: unknown; answer: components["DoneAnswer"] };
  unset_scope_value: { path: { scope: string | number, name: string | number }; query: {  }; body: unknown; answer: components["DoneAnswer"] };
  unset_value: { path: { session: string | number, name: string | number }; query: {  }; body: unknown; answer: components["DoneAnswer"] };
  unsubscribe: { path: { name: string | number }; query: {  }; body: unknown; answer: components["DoneAnswer"] };
  verify: { path: {  }; query: { blobs?: boolean }; body: unknown; answer: components["Report"] | null };
  whoami: { path: {  }; query: {  }; body: unknown; answer: components["WhoAnswer"] | null };
  workflow_from: { path: { session: string | number }; query: {  }; body: components["WorkflowInput"]; answer: components["MemoryRecord"] };
  workflow_in_scope: { path: { scope: string | number }; query: {  }; body: components["WorkflowInput"]; answer: components["MemoryRecord"] };
}
