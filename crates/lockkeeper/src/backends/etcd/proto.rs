//! The messages of etcd's version 3 interface, as far as they are used here, with the field numbers of its
//! `rpc.proto` and `kv.proto`. Written by hand so that no compiler of interface files is needed to build.

use prost::{Message, Oneof};

/// The methods that are called.
pub(super) mod method {
    pub(in super::super) const RANGE: &str = "/etcdserverpb.KV/Range";
    pub(in super::super) const TXN: &str = "/etcdserverpb.KV/Txn";
    pub(in super::super) const DELETE: &str = "/etcdserverpb.KV/DeleteRange";
    pub(in super::super) const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
    pub(in super::super) const REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
    pub(in super::super) const TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
    pub(in super::super) const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
    pub(in super::super) const WATCH: &str = "/etcdserverpb.Watch/Watch";
    pub(in super::super) const MEMBERS: &str = "/etcdserverpb.Cluster/MemberList";
    pub(in super::super) const STATUS: &str = "/etcdserverpb.Maintenance/Status";
    pub(in super::super) const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Header {
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
    #[prost(uint64, tag = "4")]
    pub(super) raft_term: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(super) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    /// How often it was written since it was made.
    #[prost(int64, tag = "4")]
    pub(super) version: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
    #[prost(int64, tag = "6")]
    pub(super) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Range {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    #[prost(int64, tag = "4")]
    pub(super) revision: i64,
    /// 1: lowest first, 2: highest first.
    #[prost(int32, tag = "5")]
    pub(super) sort_order: i32,
    /// 0: by key, 2: by create revision.
    #[prost(int32, tag = "6")]
    pub(super) sort_target: i32,
    #[prost(bool, tag = "7")]
    pub(super) serializable: bool,
    #[prost(int64, tag = "12")]
    pub(super) min_create_revision: i64,
    #[prost(int64, tag = "13")]
    pub(super) max_create_revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeAnswer {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(super) more: bool,
    /// All keys of the range, whatever the limit and the filters.
    #[prost(int64, tag = "4")]
    pub(super) count: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Put {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) lease: i64,
    #[prost(bool, tag = "5")]
    pub(super) ignore_value: bool,
    #[prost(bool, tag = "6")]
    pub(super) ignore_lease: bool,
}

impl Put {
    /// Leaves the key as it is; who watches it is told all the same.
    pub(super) fn touch(key: &[u8]) -> Self {
        Self {
            key: key.to_vec(),
            ignore_value: true,
            ignore_lease: true,
            ..Self::default()
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PutAnswer {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Delete {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteAnswer {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(int64, tag = "2")]
    pub(super) deleted: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Operation {
    #[prost(oneof = "Request", tags = "1, 2, 3")]
    pub(super) request: Option<Request>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Request {
    #[prost(message, tag = "1")]
    Range(Range),
    #[prost(message, tag = "2")]
    Put(Put),
    #[prost(message, tag = "3")]
    Delete(Delete),
}

impl From<Request> for Operation {
    fn from(request: Request) -> Self {
        Self {
            request: Some(request),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OperationAnswer {
    #[prost(oneof = "Answer", tags = "1, 2, 3")]
    pub(super) answer: Option<Answer>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Answer {
    #[prost(message, tag = "1")]
    Range(RangeAnswer),
    #[prost(message, tag = "2")]
    Put(PutAnswer),
    #[prost(message, tag = "3")]
    Delete(DeleteAnswer),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Compare {
    /// 0: equal, 2: less.
    #[prost(int32, tag = "1")]
    pub(super) result: i32,
    /// 1: create revision, 2: modification revision, 4: lease.
    #[prost(int32, tag = "2")]
    pub(super) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) key: Vec<u8>,
    #[prost(oneof = "Compared", tags = "5, 6, 8")]
    pub(super) with: Option<Compared>,
    /// With it, all keys of the range must compare; of an empty range the revision is 0.
    #[prost(bytes = "vec", tag = "64")]
    pub(super) range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Compared {
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    #[prost(int64, tag = "8")]
    Lease(i64),
}

impl Compare {
    /// The key was created at this revision; 0: it does not exist.
    pub(super) fn created_at(key: &[u8], revision: i64) -> Self {
        Self {
            result: 0,
            target: 1,
            key: key.to_vec(),
            with: Some(Compared::CreateRevision(revision)),
            range_end: Vec::new(),
        }
    }

    /// The key was last changed at this revision.
    pub(super) fn changed_at(key: &[u8], revision: i64) -> Self {
        Self {
            result: 0,
            target: 2,
            key: key.to_vec(),
            with: Some(Compared::ModRevision(revision)),
            range_end: Vec::new(),
        }
    }

    /// The key is bound to this lease.
    pub(super) fn bound_to(key: &[u8], lease: i64) -> Self {
        Self {
            result: 0,
            target: 4,
            key: key.to_vec(),
            with: Some(Compared::Lease(lease)),
            range_end: Vec::new(),
        }
    }

    /// No key of the range exists.
    pub(super) fn empty(key: &[u8], range_end: &[u8]) -> Self {
        Self {
            range_end: range_end.to_vec(),
            ..Self::created_at(key, 0)
        }
    }

    /// No key of the range was made or changed after this revision.
    pub(super) fn unchanged_since(key: &[u8], range_end: &[u8], revision: i64) -> Self {
        Self {
            result: 2,
            range_end: range_end.to_vec(),
            ..Self::changed_at(key, revision + 1)
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Txn {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<Operation>,
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<Operation>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnAnswer {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(super) answers: Vec<OperationAnswer>,
}

impl TxnAnswer {
    /// The answers to the ranges in it, in their order.
    pub(super) fn ranges(self) -> impl Iterator<Item = RangeAnswer> {
        self.answers
            .into_iter()
            .filter_map(|answer| match answer.answer {
                Some(Answer::Range(range)) => Some(range),
                _ => None,
            })
    }

    /// How many keys the deletions in it took out.
    pub(super) fn deleted(&self) -> i64 {
        let deleted = |answer: &OperationAnswer| match &answer.answer {
            Some(Answer::Delete(delete)) => delete.deleted,
            _ => 0,
        };
        self.answers.iter().map(deleted).sum()
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Grant {
    #[prost(int64, tag = "1")]
    pub(super) ttl: i64,
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GrantAnswer {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseId {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
}

/// The question for a lease's time to live, and for the keys that are bound to it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TimeToLive {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
    #[prost(bool, tag = "2")]
    pub(super) keys: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BoundKeys {
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub(super) keys: Vec<Vec<u8>>,
}

/// Of a revocation; only that it came is of interest.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Done {}

/// Of a keep-alive and of a question for the time to live: both have these fields at these numbers.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseAnswer {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
    /// Of a lease that is gone, 0 or -1.
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchRequest {
    #[prost(oneof = "WatchChange", tags = "1, 2")]
    pub(super) change: Option<WatchChange>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum WatchChange {
    #[prost(message, tag = "1")]
    Create(WatchCreate),
    #[prost(message, tag = "2")]
    Cancel(WatchCancel),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    /// 0: puts are not told.
    #[prost(int32, repeated, tag = "5")]
    pub(super) filters: Vec<i32>,
    /// Events tell what was there before.
    #[prost(bool, tag = "6")]
    pub(super) prev_kv: bool,
    #[prost(int64, tag = "7")]
    pub(super) watch_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchCancel {
    #[prost(int64, tag = "1")]
    pub(super) watch_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchAnswer {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(int64, tag = "2")]
    pub(super) watch_id: i64,
    #[prost(bool, tag = "3")]
    pub(super) created: bool,
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    #[prost(string, tag = "6")]
    pub(super) cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    /// 0: put, 1: deleted.
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) kv: Option<KeyValue>,
    #[prost(message, optional, tag = "3")]
    pub(super) prev_kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Credentials {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AuthToken {
    #[prost(string, tag = "2")]
    pub(super) token: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Nothing {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Members {
    #[prost(message, repeated, tag = "2")]
    pub(super) members: Vec<Member>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Member {
    #[prost(bool, tag = "5")]
    pub(super) is_learner: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(int64, tag = "3")]
    pub(super) db_size: i64,
    #[prost(string, repeated, tag = "8")]
    pub(super) errors: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(super) db_size_in_use: i64,
    #[prost(int64, tag = "12")]
    pub(super) db_size_quota: i64,
}
