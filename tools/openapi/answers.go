package main

import (
	"slices"
	"strings"
)

// problem is an answer that says why a call failed.
type problem struct {
	name, status, description string
	codes                     []string // its codes; none: those of another answer
}

// problems are all of them.
var problems = []problem{
	{"InvalidArgument", "400", "Something in the call is wrong: field names it.", []string{"invalid_argument"}},
	{"Unauthenticated", "401", "The caller has not said who it is.", []string{"unauthenticated"}},
	{"PermissionDenied", "403", "The caller may not do this: it came from a page of another origin, or to a host that is not a name of this node.",
		[]string{"permission_denied"}},
	{"NotFound", "404", "There is none of the name or id.", []string{"not_found"}},
	{"Conflict", "409", "What is there does not allow it: code says what.",
		[]string{"already_exists", "failed_precondition"}},
	{"PreconditionFailed", "412", "The condition in If-Match or If-None-Match does not hold.", nil},
	{"TooLarge", "413", "The body is larger than the node reads.", nil},
	{"ResourceExhausted", "429", "A limit of the node, or a quota of the namespace: Retry-After says when to try again, if that is known.", []string{"resource_exhausted"}},
	{"Internal", "500", "A bug, a broken store, or a record that stood in a part of the store that is damaged: code says which.",
		[]string{"internal", "data_loss"}},
	{"Unavailable", "503", "Try again: Retry-After says when.", []string{"unavailable"}},
	{"DeadlineExceeded", "504", "It took too long.", []string{"deadline_exceeded"}},
}

// problemCodes are the codes of all problems. Nobody sees canceled: its caller has gone.
func problemCodes() []any {
	codes := []any{}
	for _, p := range problems {
		for _, c := range p.codes {
			codes = append(codes, c)
		}
	}
	return append(codes, "canceled")
}

// responses are the answers that calls share.
func responses() object {
	out := object{}
	for _, p := range problems {
		r := object{"description": p.description,
			"content": object{"application/problem+json": object{"schema": ref("Problem")}}}
		if p.status == "503" || p.status == "429" {
			r["headers"] = object{"Retry-After": object{"$ref": "#/components/headers/Retry-After"}}
		}
		out[p.name] = r
	}
	return out
}

// responseHeaders are the headers that answers share.
func responseHeaders() object {
	header := func(description string, schema object) object {
		return object{"description": description, "schema": schema}
	}
	return object{
		"ETag":        header("The job's generation in quotes.", object{"type": "string", "pattern": `^"[0-9]+"$`}),
		"Location":    header("The path of the job.", object{"type": "string"}),
		"Retry-After": header("Seconds.", object{"type": "integer", "minimum": 1}),
	}
}

// neverMissing are the calls that do not answer that there is none of a name or id.
var neverMissing = []string{"PutJob", "CreateJob", "BatchPutJobs", "ListJobs", "DeleteJobs", "ListRuns",
	"ListRunsOfJob", "RedriveRuns", "BulkRuns", "BulkJobs",
	"GetNamespace", "ListNamespaces", "PutNamespace", "PreviewSchedule", "GetCluster", "Rebalance",
	"ListQueues", "ListWorkers", "ListIngests", "PauseQueue", "ResumeQueue", "PurgeQueue", "Watch", "WatchNamespace",
	"PutCalendar", "ListCalendars", "CollectPayloads", "ListAudit", "VerifyAudit"}

// streams are the calls that answer with a stream of events.
var streams = []string{"Watch", "WatchNamespace"}

// finishAnswers says what a call answers.
func (d *document) finishAnswers(name, method string, call object) {
	answers := must(call, "responses")
	ok := must(answers, "200")
	ok["description"] = "Done: " + lowerFirst(ok["description"].(string))
	schema := refName(must(ok, "content", "application/json", "schema"))
	if schema == "Job" || schema == "PutJobResponse" {
		ok["headers"] = object{"ETag": object{"$ref": "#/components/headers/ETag"}}
	}
	if slices.Contains(streams, name) {
		ok["content"] = object{"text/event-stream": object{"schema": object{"type": "string"}}}
	}
	if l := links(name); l != nil {
		ok["links"] = l
	}
	if name == "PutJob" || name == "CreateJob" {
		created := clone(ok)
		created["description"] = "The job was created."
		must(created, "headers")["Location"] = object{"$ref": "#/components/headers/Location"}
		answers["201"] = created
	}
	if name == "CreateJob" {
		delete(answers, "200") // it stores none that is there
	}
	for _, p := range problems {
		switch p.status {
		case "404":
			if slices.Contains(neverMissing, name) {
				continue
			}
		case "409":
			if method == "get" && !slices.Contains(streams, name) && name != "ListKeys" { // a node may take no keys
				continue
			}
		case "412":
			if !slices.ContainsFunc(headers(name), func(h any) bool { return h.(object)["name"] == "If-Match" }) {
				continue
			}
		case "413":
			if call["requestBody"] == nil {
				continue
			}
		}
		answers[p.status] = object{"$ref": "#/components/responses/" + p.name}
	}
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// links say which calls can follow with what a call answered.
func links(call string) object {
	link := func(operation string, parameters object) object {
		return object{"operationId": operation, "parameters": parameters}
	}
	job := func(from string) object {
		at := object{"namespace": "$response.body#" + from + "/namespace",
			"name": "$response.body#" + from + "/name"}
		out := object{}
		for _, op := range []string{"GetJob", "PatchJob", "DeleteJob", "TriggerJob", "PauseJob", "ResumeJob",
			"SkipRun", "ListBackfills", "ListTimes"} {
			out[op] = link(op, at)
		}
		of := object{"namespace": at["namespace"], "job": at["name"]}
		out["ListRunsOfJob"], out["RedriveRunsOfJob"] = link("ListRunsOfJob", of), link("RedriveRunsOfJob", of)
		return out
	}
	id := object{"namespace": "$response.body#/namespace", "id": "$response.body#/id"}
	switch call {
	case "PutJob", "CreateJob":
		return job("/job")
	case "TriggerJob":
		return object{"GetRun": link("GetRun", id), "CancelRun": link("CancelRun", id),
			"RedriveRun": link("RedriveRun", id), "CompleteRun": link("CompleteRun", id)}
	case "StartBackfill":
		return object{"GetBackfill": link("GetBackfill", id), "CancelBackfill": link("CancelBackfill", id)}
	}
	return nil
}
