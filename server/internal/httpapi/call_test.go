package httpapi

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// TestRequests: what a request asks of the service.
func TestRequests(t *testing.T) {
	const ns = "/v1/namespaces/ns"
	from := timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC))
	for _, c := range []struct {
		request, body string
		headers       []string
		want          proto.Message
	}{
		{"PUT " + ns + "/jobs/reports/nightly",
			`{"schedule":"@daily","timeZone":"Europe/London","repeats":"7"}`, nil,
			&pb.PutJobRequest{Namespace: "ns", Name: "reports/nightly",
				Job: &pb.Job{Schedule: "@daily", TimeZone: "Europe/London", Repeats: 7}}},
		{"PUT " + ns + "/jobs/a%20b%2Fc", `{}`, nil,
			&pb.PutJobRequest{Namespace: "ns", Name: "a b/c", Job: &pb.Job{}}},
		{"PUT " + ns + "/jobs/a:b", `{}`, nil, &pb.PutJobRequest{Namespace: "ns", Name: "a:b", Job: &pb.Job{}}},
		{"DELETE " + ns + "/jobs/a:", ``, nil, &pb.DeleteJobRequest{Namespace: "ns", Name: "a:"}},
		{"PUT " + ns + "/jobs/x", ``, nil, &pb.PutJobRequest{Namespace: "ns", Name: "x"}},
		{"PUT " + ns + "/jobs/x", `{}`, []string{"If-None-Match", "*"},
			&pb.PutJobRequest{Namespace: "ns", Name: "x", Job: &pb.Job{}, IfAbsent: true}},
		{"PUT " + ns + "/jobs/x", `{}`, []string{"If-Match", `"12"`},
			&pb.PutJobRequest{Namespace: "ns", Name: "x", Job: &pb.Job{}, IfGeneration: 12}},
		{"PUT " + ns + "/jobs/x", `{"repeats":3.0,"catch_up_limit":2e2}`, nil,
			&pb.PutJobRequest{Namespace: "ns", Name: "x", Job: &pb.Job{Repeats: 3, CatchUpLimit: 200}}},
		{"PUT " + ns + "/jobs/x?if_absent=true", `{}`, nil,
			&pb.PutJobRequest{Namespace: "ns", Name: "x", Job: &pb.Job{}, IfAbsent: true}},
		{"PUT " + ns + "/jobs/x?ifGeneration=3", `{}`, nil,
			&pb.PutJobRequest{Namespace: "ns", Name: "x", Job: &pb.Job{}, IfGeneration: 3}},
		{"POST " + ns + "/jobs", `{"due_time":"2s"}`, nil,
			&pb.CreateJobRequest{Namespace: "ns", Job: &pb.Job{DueTime: "2s"}}},
		{"POST " + ns + "/jobs:batch", `{"jobs":[{"name":"a"},{"name":"b"}]}`, nil,
			&pb.BatchPutJobsRequest{Namespace: "ns", Jobs: []*pb.Job{{Name: "a"}, {Name: "b"}}}},
		{"PATCH " + ns + "/jobs/x", `{"note":"n","labels":{"a":"b"},"schedule":null}`, []string{"If-Match", `"4"`},
			&pb.PatchJobRequest{Namespace: "ns", Name: "x",
				Job:    &pb.Job{Note: "n", Labels: map[string]string{"a": "b"}},
				Fields: []string{"note", "labels", "schedule"}, IfGeneration: 4}},
		{"PATCH " + ns + "/jobs/x", `{"data":1}`, nil,
			&pb.PatchJobRequest{Namespace: "ns", Name: "x",
				Job: &pb.Job{Data: []byte("1"), ContentType: "application/json"}, Fields: []string{"data"}}},
		{"GET " + ns + "/jobs/a/b", ``, nil, &pb.GetJobRequest{Namespace: "ns", Name: "a/b"}},
		{"HEAD " + ns + "/jobs/a/b", ``, nil, &pb.GetJobRequest{Namespace: "ns", Name: "a/b"}},
		{"GET " + ns + "/jobs/a/b", ``, []string{"If-None-Match", `"3"`},
			&pb.GetJobRequest{Namespace: "ns", Name: "a/b"}},
		{"HEAD " + ns + "/jobs/a/b", ``, []string{"If-None-Match", `"3"`},
			&pb.GetJobRequest{Namespace: "ns", Name: "a/b"}},
		{"GET " + ns + "/jobs?prefix=a/&label=k%3Dv&phase=staged&page_size=5&page_token=t", ``, nil,
			&pb.ListJobsRequest{Namespace: "ns", Prefix: "a/", Label: "k=v", Phase: pb.Phase_PHASE_STAGED,
				PageSize: 5, PageToken: "t"}},
		{"GET " + ns + "/jobs?prefix=&label=&phase=&page_size=&page_token=", ``, nil,
			&pb.ListJobsRequest{Namespace: "ns"}},
		{"DELETE " + ns + "/jobs/a/b", ``, nil, &pb.DeleteJobRequest{Namespace: "ns", Name: "a/b"}},
		{"DELETE " + ns + "/jobs?prefix=p/", ``, nil, &pb.DeleteJobsRequest{Namespace: "ns", Prefix: "p/"}},
		{"DELETE " + ns + "/jobs", ``, nil, &pb.DeleteJobsRequest{Namespace: "ns"}},
		{"POST " + ns + "/jobs/a/b:trigger", ``, nil, &pb.TriggerJobRequest{Namespace: "ns", Name: "a/b"}},
		{"POST " + ns + "/jobs/a/b:trigger", `{"data":{"x": 1.0},"overlap":"skip"}`, nil,
			&pb.TriggerJobRequest{Namespace: "ns", Name: "a/b", Data: []byte(`{"x": 1.0}`),
				ContentType: "application/json", Overlap: pb.Overlap_OVERLAP_SKIP}},
		{"POST " + ns + "/jobs/a/b:trigger", `{"data_base64":"","contentType":"text/x","metadata":{"k":"v"}}`, nil,
			&pb.TriggerJobRequest{Namespace: "ns", Name: "a/b", Data: []byte{}, ContentType: "text/x",
				Metadata: map[string]string{"k": "v"}}},
		{"POST " + ns + "/jobs/a/b:pause", `{"note":"why"}`, nil,
			&pb.PauseJobRequest{Namespace: "ns", Name: "a/b", Note: "why"}},
		{"POST " + ns + "/jobs/a/b:resume", `{}`, nil, &pb.ResumeJobRequest{Namespace: "ns", Name: "a/b"}},
		{"POST " + ns + "/jobs/a/b:resume", `{"note":"why","catchUp":true}`, nil,
			&pb.ResumeJobRequest{Namespace: "ns", Name: "a/b", Note: "why", CatchUp: true}},
		{"POST " + ns + "/jobs/a/b:skip", ``, nil, &pb.SkipRunRequest{Namespace: "ns", Name: "a/b"}},
		{"POST " + ns + "/jobs/a/b:backfill",
			`{"from":"2026-01-02T03:04:05.006Z","overlap":"allow","rate":0.5}`, nil,
			&pb.StartBackfillRequest{Namespace: "ns", Name: "a/b", From: from,
				Overlap: pb.Overlap_OVERLAP_ALLOW, Rate: 0.5}},
		{"POST " + ns + "/jobs/a/b:backfill", `{"to":"2026-01-02T03:04:05.006Z"}`, nil,
			&pb.StartBackfillRequest{Namespace: "ns", Name: "a/b", To: from}},
		{"GET " + ns + "/jobs/a/b:times?count=3&until=2026-01-02T03:04:05.006Z", ``, nil,
			&pb.ListTimesRequest{Namespace: "ns", Name: "a/b", Count: 3, Until: from}},
		{"GET " + ns + "/jobs/a/b:backfills", ``, nil, &pb.ListBackfillsRequest{Namespace: "ns", Name: "a/b"}},
		{"GET " + ns + "/backfills/b1", ``, nil, &pb.GetBackfillRequest{Namespace: "ns", Id: "b1"}},
		{"POST " + ns + "/backfills/b1:cancel", ``, nil, &pb.CancelBackfillRequest{Namespace: "ns", Id: "b1"}},
		{"GET " + ns, ``, nil, &pb.GetNamespaceRequest{Name: "ns"}},
		{"GET /v1/namespaces?page_size=2&page_token=t", ``, nil,
			&pb.ListNamespacesRequest{PageSize: 2, PageToken: "t"}},
		{"PUT " + ns, `{"strict":true,"concurrency_limits":{"db":2,"api":"0"}}`, nil,
			&pb.PutNamespaceRequest{Name: "ns", Strict: true, ConcurrencyLimits: map[string]int32{"db": 2, "api": 0}}},
		{"PUT " + ns, `{"name":"ns"}`, nil, &pb.PutNamespaceRequest{Name: "ns"}},
		{"POST " + ns + "/runs/r1:complete",
			`{"outcome":"progress","progress":{"percent":12.5,"message":"m"}}`, []string{"Carillon-Token", "tok"},
			&pb.CompleteRunRequest{Namespace: "ns", Id: "r1", Token: "tok", Outcome: pb.Outcome_OUTCOME_PROGRESS,
				Progress: &pb.Progress{Percent: 12.5, Message: "m"}}},
		{"POST " + ns + "/runs/r1:complete",
			`{"outcome":"reschedule","token":"tok","at":"2026-01-02T03:04:05.006Z"}`, nil,
			&pb.CompleteRunRequest{Namespace: "ns", Id: "r1", Token: "tok",
				Outcome: pb.Outcome_OUTCOME_RESCHEDULE, At: from}},
		{"GET " + ns + "/jobs/a/b:runs?page_size=2", ``, nil,
			&pb.ListRunsRequest{Namespace: "ns", Job: "a/b", PageSize: 2}},
		{"GET " + ns + "/runs?status=dead", ``, nil,
			&pb.ListRunsRequest{Namespace: "ns", Status: []pb.RunStatus{pb.RunStatus_RUN_STATUS_DEAD}}},
		{"GET " + ns + "/runs/r1", ``, nil, &pb.GetRunRequest{Namespace: "ns", Id: "r1"}},
		{"POST " + ns + "/runs/r1:cancel", ``, nil, &pb.CancelRunRequest{Namespace: "ns", Id: "r1"}},
		{"POST " + ns + "/runs/r1:redrive", ``, nil, &pb.RedriveRunRequest{Namespace: "ns", Id: "r1"}},
		{"GET " + ns + "/runs?status=failed,dead&prefix=a/&queue=q&kind=http&label=k%3Dv&error=x" +
			"&from=2026-01-02T03:04:05.006Z&until=2026-01-02T03:04:05.006Z", ``, nil,
			&pb.ListRunsRequest{Namespace: "ns", Status: []pb.RunStatus{pb.RunStatus_RUN_STATUS_FAILED,
				pb.RunStatus_RUN_STATUS_DEAD}, Prefix: "a/", Queue: "q", Kind: "http", Label: "k=v", Error: "x",
				From: from, Until: from}},
		{"GET " + ns + "/jobs/a/b:runs?status=running", ``, nil, &pb.ListRunsRequest{Namespace: "ns", Job: "a/b",
			Status: []pb.RunStatus{pb.RunStatus_RUN_STATUS_RUNNING}}},
		{"POST " + ns + "/runs:bulk", `{"action":"cancel","status":["running","staged"],"queue":"q","dry_run":true}`,
			nil, &pb.BulkRunsRequest{Namespace: "ns", Action: pb.RunAction_RUN_ACTION_CANCEL, Queue: "q", DryRun: true,
				Status: []pb.RunStatus{pb.RunStatus_RUN_STATUS_RUNNING, pb.RunStatus_RUN_STATUS_STAGED}}},
		{"POST " + ns + "/jobs:bulk", `{"action":"pause","label":"team=a","note":"n","page_token":"t"}`, nil,
			&pb.BulkJobsRequest{Namespace: "ns", Action: pb.JobAction_JOB_ACTION_PAUSE, Label: "team=a", Note: "n",
				PageToken: "t"}},
		{"POST " + ns + "/runs:redrive", ``, nil, &pb.RedriveRunsRequest{Namespace: "ns"}},
		{"POST " + ns + "/runs:redrive", `{"job":"a/b"}`, nil, &pb.RedriveRunsRequest{Namespace: "ns", Job: "a/b"}},
		{"POST " + ns + "/jobs/a/b:redrive", ``, nil, &pb.RedriveRunsRequest{Namespace: "ns", Job: "a/b"}},
		{"POST " + ns + "/runs/r1:complete", `{"outcome":"success","response":"ok"}`,
			[]string{"Carillon-Token", "tok"},
			&pb.CompleteRunRequest{Namespace: "ns", Id: "r1", Token: "tok",
				Outcome: pb.Outcome_OUTCOME_SUCCESS, Response: []byte("ok")}},
		{"POST /v1/schedules:preview", `{"schedule":"@daily","from":"2026-01-02T03:04:05.006Z","count":3,"dst":"literal"}`, nil,
			&pb.PreviewScheduleRequest{Schedule: "@daily", From: from, Count: 3,
				Dst: pb.DaylightSaving_DAYLIGHT_SAVING_LITERAL}},
	} {
		e := &echo{}
		w := send(api(t, e, Options{}), c.request, c.body, c.headers...)
		if w.Code != http.StatusOK {
			t.Errorf("%s %s: status %d, %s", c.request, c.body, w.Code, w.Body)
			continue
		}
		equal(t, c.request+" "+c.body, c.want, e.asked)
	}
}

// TestEveryCallHasAPath: each call that is no stream can be reached over REST.
func TestEveryCallHasAPath(t *testing.T) {
	reached := map[string]bool{}
	for _, rt := range allRoutes() {
		switch {
		case rt.stream != nil:
			reached[rt.stream.StreamName] = true
		case rt.call != nil:
			reached[rt.call.MethodName] = true
		}
	}
	for _, m := range slices.Concat(pb.ClusterService_ServiceDesc.Methods, pb.SchedulerService_ServiceDesc.Methods,
		pb.PayloadService_ServiceDesc.Methods) {
		if !reached[m.MethodName] {
			t.Errorf("%s has no path", m.MethodName)
		}
	}
	for _, s := range pb.EventService_ServiceDesc.Streams {
		if !reached[s.StreamName] {
			t.Errorf("%s has no path", s.StreamName)
		}
	}
}

// TestReplies: status, headers and body of what succeeded.
func TestReplies(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	job := &pb.Job{Namespace: "ns", Name: "a/b c", Schedule: "@daily", Repeats: 1 << 60,
		Overlap: pb.Overlap_OVERLAP_SKIP,
		Target: &pb.Target{Kind: &pb.Target_Http{Http: &pb.HttpTarget{Url: "http://x/?a=1&b=<2>",
			Headers: map[string]string{"b": "2", "a": "1"}}}},
		Data: []byte(`{ "n": 1.00 }`), ContentType: "application/json",
		Status: &pb.JobStatus{Uid: []byte{1}, Generation: 7, Phase: pb.Phase_PHASE_SCHEDULED, NextRunTime: at}}
	const jobJSON = `{"namespace":"ns","name":"a/b c","schedule":"@daily","repeats":"1152921504606846976","data":{ "n": 1.00 },` +
		`"content_type":"application/json","target":{"http":{"url":"http://x/?a=1&b=<2>","headers":{"a":"1","b":"2"}}},"overlap":"skip",` +
		`"status":{"uid":"AQ==","generation":"7","phase":"scheduled","next_run_time":"2026-01-02T03:04:05Z","runs_count":"0","waiting":[],"missing":[],"pending_runs":[],"missing_calendars":[]}}`
	for _, c := range []struct {
		request string
		reply   proto.Message
		status  int
		etag    string
		body    string
	}{
		{"GET /v1/namespaces/ns/jobs/x", job, 200, `"7"`, jobJSON},
		{"PUT /v1/namespaces/ns/jobs/x", &pb.PutJobResponse{Job: job, Created: true, Changed: true}, 201, `"7"`,
			`{"job":` + jobJSON + `,"created":true,"changed":true,"warnings":[]}`},
		{"PUT /v1/namespaces/ns/jobs/x", &pb.PutJobResponse{Warnings: []string{"w"}}, 200, "",
			`{"created":false,"changed":false,"warnings":["w"]}`},
		{"DELETE /v1/namespaces/ns/jobs/x", &pb.DeleteJobResponse{Deleted: true}, 200, "",
			`{"deleted":true,"interrupted":false}`},
		{"DELETE /v1/namespaces/ns/jobs?prefix=a", &pb.DeleteJobsResponse{Deleted: 3}, 200, "", `{"deleted":3}`},
		{"GET /v1/namespaces/ns/jobs", &pb.ListJobsResponse{}, 200, "", `{"jobs":[],"next_page_token":""}`},
		{"GET /v1/namespaces/ns/runs/r", &pb.Run{Id: "r", Status: pb.RunStatus_RUN_STATUS_DEAD,
			Cause: pb.Cause_CAUSE_TRIGGER, Data: []byte{0xff}, ContentType: "application/json",
			Response: []byte("no\n"), Errors: []*pb.AttemptError{{Attempt: 1, Message: "x"}}}, 200, "",
			`{"id":"r","cause":"trigger","status":"dead","data_base64":"/w==","content_type":"application/json",` +
				`"errors":[{"attempt":1,"message":"x"}],"response":"no\n"}`},
		{"GET /v1/namespaces/ns/runs/r",
			&pb.Run{Data: []byte("text"), ContentType: "text/plain", Response: []byte{0xff}}, 200, "",
			`{"data_base64":"dGV4dA==","content_type":"text/plain","response_base64":"/w=="}`},
		{"GET /v1/namespaces/ns/runs/r", &pb.Run{Id: "r", Backfill: "b", Progress: &pb.Progress{At: at}}, 200, "",
			`{"id":"r","progress":{"percent":0,"message":"","at":"2026-01-02T03:04:05Z"},"backfill":"b"}`},
		{"POST /v1/namespaces/ns/jobs/x:skip", &pb.SkipRunResponse{Time: at, Job: &pb.Job{Name: "x"}}, 200, "",
			`{"time":"2026-01-02T03:04:05Z","job":{"name":"x"}}`},
		{"GET /v1/namespaces/ns/backfills/b", &pb.Backfill{Id: "b", Total: 1 << 60, Rate: 0.5,
			Overlap: pb.Overlap_OVERLAP_SERIAL, Status: pb.BackfillStatus_BACKFILL_STATUS_CANCELLED,
			NextTime: at}, 200, "",
			`{"id":"b","namespace":"","job":"","overlap":"serial","rate":0.5,"status":"cancelled","total":"1152921504606846976",` +
				`"begun":"0","succeeded":"0","failed":"0","next_time":"2026-01-02T03:04:05Z"}`},
		{"GET /v1/namespaces/ns/jobs/x:times", &pb.ListTimesResponse{Times: []*pb.PlannedTime{{ScheduledTime: at, DueTime: at,
			UtcOffsetSeconds: 3600, OffsetChangeSeconds: -3600}}, End: "once", EndText: "It runs once."}, 200, "",
			`{"times":[{"scheduled_time":"2026-01-02T03:04:05Z","due_time":"2026-01-02T03:04:05Z","utc_offset_seconds":3600,` +
				`"offset_change_seconds":-3600}],"end":"once","end_text":"It runs once.","excluded_by":[]}`},
		{"GET /v1/namespaces/ns/jobs/x:backfills", &pb.ListBackfillsResponse{}, 200, "", `{"backfills":[]}`},
		{"GET /v1/namespaces/ns", &pb.Namespace{Name: "ns", Generation: 1}, 200, `"1"`,
			`{"name":"ns","strict":false,"concurrency_limits":{},"generation":"1","webhooks":[],"unserved_after":"","rate_limits":{}}`},
		{"PUT /v1/namespaces/ns", &pb.Namespace{Strict: true,
			ConcurrencyLimits: map[string]int32{"b": 0, "a": 7}, Generation: 2}, 200, `"2"`,
			`{"name":"","strict":true,"concurrency_limits":{"a":7,"b":0},"generation":"2","webhooks":[],"unserved_after":"","rate_limits":{}}`},
		{"POST /v1/schedules:preview", &pb.PreviewScheduleResponse{Times: []*timestamppb.Timestamp{at}}, 200, "",
			`{"times":["2026-01-02T03:04:05Z"],"hints":[]}`},
	} {
		w := send(api(t, &echo{reply: c.reply}, Options{}), c.request, "")
		if w.Code != c.status || w.Header().Get("ETag") != c.etag || w.Body.String() != c.body+"\n" {
			t.Errorf("%s: status %d, ETag %s, body\n%swant\n%s", c.request, w.Code,
				w.Header().Get("ETag"), w.Body, c.body)
		}
		if got := w.Header().Get("Content-Type"); got != "application/json" {
			t.Errorf("%s: Content-Type %s", c.request, got)
		}
		if c.status == 201 && w.Header().Get("Location") != "/v1/namespaces/ns/jobs/a/b%20c" {
			t.Errorf("Location %s", w.Header().Get("Location"))
		}
	}
}
