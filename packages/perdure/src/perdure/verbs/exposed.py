"""The fields of records that network doors may show: a new field reaches none of them until it is named here.

A record that stands on another has the fields of both. Callers: the server, for its answers and their document. Keeps P11.
"""

from __future__ import annotations

FIELDS: dict[str, frozenset[str]] = {
    name: frozenset(fields.split())
    for name, fields in {
        "About": "pid agents concurrency supervisor suspects programs",
        "Absent": "reason",
        "ActorRecord": "actor name",
        "Age": "limit",
        "Answer": "call tool result error",
        "ArchiveManifest": "format kind schema store epoch at note tables",
        "ArchiveTable": "table columns rows size sha256",
        "Arrived": "uid kind name added events parked without keys",
        "ArtifactRecord": "seq session name media_type size hash at actor ref",
        "Aside": "segment offset length reason lost content",
        "AtCommit": "commit folder",
        "Backup": "path store epoch schema size blobs note",
        "Call": "id tool args",
        "CheckResult": "check standing why",
        "CheckpointPart": "root size at about subjects",
        "CheckpointRecord": "seq name parent hash size at actor ref key parent_key",
        "ClaimerAlive": "task",
        "CollectReport": "blobs bytes files leftovers addresses dry_run",
        "Command": "argv exit folder",
        "Contention": "looks writing writers readers",
        "Counts": "streams events rows derived blobs plain_actors",
        "Cover": "seq first_seq last_seq text at actor ref keys",
        "Cursor": "seq hash cut cut_seq done last",
        "DamagedRow": "where reason",
        "DecisionRecord": (
            "seq session text because then status outcome note tags actor at supersedes superseded_by refs ref "
            "changed_at closed_at"
        ),
        "Declined": "reason",
        "Difference": "how name before after",
        "Document": "doc blob subjects",
        "Due": "first_seq last_seq covers",
        "EffectError": "code message",
        "EffectPart": (
            "seq state tool kind key digest attempt epoch actor at place call undoes holder dispatched_at "
            "deadline_at quiet_at error mishaps first_dispatched_at meant became"
        ),
        "EffectRecord": (
            "seq stream_kind stream tool kind state key digest args rule attempt holder place call undoes epoch "
            "actor at dispatched_at deadline_at quiet_at result error settled_by ref mishaps first_dispatched_at "
            "unkept doubtful sent_key what_if outcome_at copy sagas"
        ),
        "Entry": "name value version updated_at age expires_at actor",
        "Envelope": (
            "store epoch made_at sealed run cursor verdict pending pins workspace checkpoint artifacts steps "
            "effects waits signals children"
        ),
        "EventContent": "data about refs body",
        "EventRecord": "seq kind table actor _at_us session uid emptied _stored _read stream_kind",
        "Exported": "path digest size streams events blobs",
        "FileHash": "path sha256 folder",
        "Finding": "check severity says fix",
        "FoldState": "state seq folded",
        "Forecast": "seq place known_at kept again",
        "Found": "kind stream_kind stream seq text actor at score why ref",
        "GitRef": "name commit folder",
        "Happened": "result",
        "Health": "store findings",
        "Held": "what holder",
        "HeldRecord": "run agent parent session since doing last_at quiet_seconds deaths suspect cancelling",
        "ImportedBundle": "digest tenant streams blobs dry_run",
        "Indexed": "texts vectors embedding",
        "Listed": "uid kind name first last head session session_uid",
        "LockRecord": "name token holder deadline",
        "Manifest": "format kind about tenant streams events members actors",
        "Member": "name size sha256",
        "MemoryRecord": (
            "seq scope scope_kind kind text status key tags about sources confidence valid_from valid_to actor at "
            "confirmed_at supersedes superseded_by refs ref note uses used_at checks"
        ),
        "ModelOffered": "model",
        "Moved": "source target streams events blobs held fenced dry_run",
        "Native": "form body",
        "Origin": "session uid seq branch",
        "PackChange": "how section kind id now then",
        "PackManifest": "session uid seq made_at commit budget max_chars tokens chars profile shown left_out notes",
        "PackedItem": "section kind id tokens chars at shortened said changed",
        "Part": "",
        "Pending": "kind turn calls",
        "PendingEffect": "id tool kind state key handed attempt action reason until undo undo_idempotent undoes settle",
        "Pins": "model prompt tools commit digest",
        "PinsChange": "number moved decision",
        "Problem": "kind stream uid seq table message",
        "PruneReport": "pruned kept bytes dry_run",
        "QueueRecord": "agent known ready running waiting parked oldest_ready_at",
        "Recovered": "runs settled waiting damaged",
        "Reference": "kind session seq actor at ref",
        "Remedy": "address",
        "Repeated": "seq place kind name then",
        "Reply": "value answers",
        "Report": "problems unverifiable counts signature left_out unnamed quarantined",
        "Restored": "url store epoch schema blobs report",
        "RetainReport": "streams blobs bytes dry_run lingering",
        "Retained": "kind name checkpoints turns bytes events values",
        "Retention": "checkpoints turns sessions runs values emitted session older_than label except_label larger_than",
        "Rule": "timeout lands_within keeps_keys retries undo undo_idempotent",
        "RunDiff": "about steps effects waits",
        "RunPart": (
            "uid name agent status digest creator created_at token program key session parent ended_at timeout_at "
            "cancelling pinned restored reason subjects pins pins_change on_change session_pins given became"
        ),
        "RunRecord": (
            "id agent status key args kwargs result error session parent creator created_at ended_at wake_at "
            "timeout_at holder token deaths suspect cancelling cuts cut_seq program pinned epoch reason abandoned "
            "ref what_if hint outcome_at copy numbering pins pins_change on_change"
        ),
        "RunVerdict": "standing says",
        "SessionDiff": "about values tasks decisions checkpoints artifacts turns_added turns_removed",
        "SessionHeader": (
            "name title status creator labels created_at ended_at expires_at last_seq last_at archived_at copy"
        ),
        "SessionRecord": "goal pins",
        "SignalPart": "seq name meant",
        "StepPart": "seq meant",
        "StepRecord": "seq place name digest value error notes input gave shape took_us",
        "StrandedRecord": "run agent program since",
        "SubjectRecord": "subject records streams first_at last_at",
        "TaskRecord": (
            "id session title status priority parent needs labels detail note actor at holder claimed_by "
            "claim_expires_at token abandoned ref changed_at closed_at key"
        ),
        "TenantLimits": "requests streams runs bytes",
        "TimelineRecord": "seq at kind actor about place of said",
        "TokenRecord": "id tenant role actor made_by made_at expires_at used_at expired",
        "Turn": "seq role content calls at actor key call error ref origin shown native usage model parent",
        "Unknown": "reason",
        "Unreadable": "",
        "Unverifiable": "stream uid seq",
        "UrlEtag": "url etag",
        "ValueIs": "name value",
        "Verdict": "",
        "WaitPart": "seq kind state name actor at place effect digest expires_at met_by met_at meant became",
        "WaitRecord": (
            "seq stream_kind stream kind state name question choices default detail place effect digest actor at "
            "expires_at met_by met_at answer ref"
        ),
        "WhatIf": "run uid seq place acts",
        "Why": "words lent age source vector user_said",
        "WorkerRecord": "holder actor host started_at alive about runs",
        "WorkersRecord": "at workers queue stranded",
        "WrittenBack": "events streams segments behind epoch",
    }.items()
}
