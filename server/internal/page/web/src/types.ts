// What the API answers, as far as the page looks at it: see /openapi.json.

export interface Hold { code: string; text: string; since?: string; until?: string }

export interface AttemptError { attempt?: number; time?: string; message?: string; redriven?: boolean }

export interface Run {
  id: string;
  namespace: string;
  job: string;
  cause?: string;
  status: string;
  scheduled_time?: string;
  due_time?: string;
  attempt?: number;
  start_time?: string;
  finish_time?: string;
  queue?: string;
  deadline?: string;
  lease?: string;
  data?: unknown;
  data_base64?: string;
  payload?: string;
  content_type?: string;
  metadata?: Record<string, string>;
  errors?: AttemptError[];
  response?: string;
  response_base64?: string;
  worker?: string;
  reason?: string;
  skipped?: string;
  from_time?: string;
  progress?: { percent?: number; message?: string; at?: string };
  backfill?: string;
  in_doubt?: number;
  hold?: Hold;
}

export type Target = Record<string, Record<string, unknown>>;

export interface Status {
  uid?: string;
  generation?: string;
  create_time?: string;
  update_time?: string;
  phase?: string;
  next_run_time?: string;
  last_run?: Run;
  current_run?: Run;
  runs_count?: string;
  counters?: Record<string, string>;
  waiting?: string[];
  missing?: string[];
  pending_count?: number;
  pending_runs?: Run[];
  hold?: Hold;
  failures?: number;
  missing_calendars?: string[];
}

export interface Timetable {
  times?: { scheduled_time: string; due_time: string; past?: boolean }[];
  end?: string;
  end_text?: string;
  excluded_time?: string;
}

export interface Job {
  namespace: string;
  name: string;
  schedule?: string;
  time_zone?: string;
  dst?: string;
  except?: string[];
  only?: string[];
  due_time?: string;
  repeats?: string;
  ttl?: string;
  labels?: Record<string, string>;
  target?: Target;
  data?: unknown;
  data_base64?: string;
  payload?: string;
  content_type?: string;
  concurrency_key?: string;
  depends_on?: string[];
  paused?: boolean;
  note?: string;
  priority?: string;
  status?: Status;
}

export interface Queue {
  namespace: string;
  kind: string;
  name: string;
  ready?: string;
  limited?: string;
  staged?: string;
  oldest_due?: string;
  consumers?: number;
  silent?: number;
  credits?: string;
  in_flight?: string;
  unserved?: boolean;
  pause?: { since?: string; note?: string };
}

export interface Worker {
  namespace: string;
  kind: string;
  id: string;
  node: string;
  labels?: Record<string, string>;
  queues?: string[];
  since?: string;
  credits?: string;
  in_flight?: string;
  silent?: boolean;
  version?: string;
  last_seen?: string;
}

export interface Node {
  id: string;
  address?: string;
  http_address?: string;
  sidecar_address?: string;
  draining?: boolean;
  owns?: number;
  skew?: string;
  state?: string;
  reason?: string;
}

export interface Cluster {
  nodes?: Node[];
  partitions?: { partition?: number; epoch?: string; node?: string; lease_until?: string }[];
  warnings?: string[];
}

export interface IngestCounts { done?: string; repeated?: string; dead?: string; retried?: string }

export interface IngestReader {
  node: string;
  since?: string;
  connected?: boolean;
  error?: string;
  error_since?: string;
  retrying?: string;
}

export interface Ingest {
  namespace: string;
  name: string;
  broker?: string;
  kind?: string;
  topic: string;
  dead_letter?: string;
  lag?: string;
  in_flight?: string;
  last_message_time?: string;
  counts?: IngestCounts;
  readers?: IngestReader[];
}

export interface Backfill {
  id: string;
  namespace: string;
  job: string;
  from?: string;
  to?: string;
  overlap?: string;
  rate?: number;
  status?: string;
  total?: string;
  begun?: string;
  succeeded?: string;
  failed?: string;
  next_time?: string;
  create_time?: string;
  finish_time?: string;
}

export interface Calendar {
  namespace: string;
  name: string;
  time_zone?: string;
  dates?: string[];
  note?: string;
  generation?: string;
}

export interface Webhook { name: string; url?: string; types?: string[]; prefix?: string; [target: string]: unknown }

export interface Rate { count: string; period?: string; burst?: string }

export interface Quotas { jobs?: string; payload_bytes?: string; puts?: Rate; runs?: Rate; concurrent_runs?: string }

export interface Namespace {
  name: string;
  strict?: boolean;
  concurrency_limits?: Record<string, number>;
  rate_limits?: Record<string, Rate>;
  quotas?: Quotas;
  used?: { jobs?: string; payload_bytes?: string }; // with a quota of these; never in a list
  generation?: string;
  webhooks?: Webhook[];
  unserved_after?: string;
}

export interface Happening {
  id: string;
  type: string;
  time?: string;
  namespace?: string;
  job?: string;
  run?: string;
  attempt?: number;
  error?: string;
  queue?: string;
  queue_kind?: string;
  late?: string;
  reason?: string;
}

export interface BulkAnswer {
  matched?: number;
  changed?: number;
  failed?: number;
  failures?: { name: string; reason: string }[];
  names?: string[];
  next_page_token?: string;
}
