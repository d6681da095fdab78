package server_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// hidden is in everything that no entry may have.
const hidden = "S3CRET"

// audited are two nodes that record calls in their store.
type audited struct {
	t     *testing.T
	key   carillon.CreatedKey
	nodes []*server.Server
	conns []*grpc.ClientConn
	read  *client.Client
	log   *syncBuffer
	n     int // makes names
}

func startAudited(t *testing.T) *audited {
	t.Helper()
	url := realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
	a := &audited{t: t, log: &syncBuffer{}, key: firstKey(t, url, carillon.NewKey{Grants: everyRole("*")})}
	payloads := "file:" + t.TempDir()
	for _, name := range []string{"a", "b"} {
		a.nodes = append(a.nodes, serve(t, server.Config{Store: url, Name: name, Partitions: 8,
			Payloads:   &server.Payloads{Store: payloads},
			Log:        slog.New(slog.NewTextHandler(a.log, nil)),
			Extensions: server.Extensions{Auth: server.AuthKeys, Audit: server.Audit{To: server.AuditStore}}}))
		conn, err := grpc.NewClient(a.nodes[len(a.nodes)-1].GRPCAddr(),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		a.conns = append(a.conns, conn)
	}
	var err error
	if a.read, err = client.Dial(a.nodes[1].GRPCAddr(), client.WithToken(a.key.Secret)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.read.Close() })
	spread(t, a.nodes[0], 2)
	return a
}

// ctx is that of a caller with the key.
func (a *audited) ctx() context.Context {
	return metadata.AppendToOutgoingContext(a.t.Context(), "authorization", "Bearer "+a.key.Secret)
}

// job is one with hidden texts wherever there may be some; its name is new.
func (a *audited) job() *pb.Job {
	a.n++
	return &pb.Job{Name: fmt.Sprint("job/", a.n), Schedule: "@hourly", Note: hidden, Data: []byte(`"` + hidden + `"`),
		Metadata: map[string]string{"m": hidden}, Labels: map[string]string{hidden: hidden},
		Target: &pb.Target{Kind: &pb.Target_Http{Http: &pb.HttpTarget{Url: "https://example.com/?" + hidden,
			Headers: map[string]string{"x": hidden}}}}}
}

// put puts a job without a trace of who does it, and returns its name.
func (a *audited) put(change func(j *pb.Job)) string {
	a.t.Helper()
	j := a.job()
	if change != nil {
		change(j)
	}
	a.call(0, pb.SchedulerService_PutJob_FullMethodName, &pb.PutJobRequest{Job: j})
	return j.GetName()
}

// call makes a call at a node.
func (a *audited) call(node int, method string, req proto.Message) proto.Message {
	a.t.Helper()
	reply := answerOf(a.t, method)
	if err := a.conns[node].Invoke(a.ctx(), method, req, reply); err != nil {
		a.t.Fatalf("%s: %v", method, err)
	}
	return reply
}

func answerOf(t *testing.T, method string) proto.Message {
	t.Helper()
	full := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(full)
	if err != nil {
		t.Fatal(err)
	}
	mt, err := protoregistry.GlobalTypes.FindMessageByName(d.(protoreflect.MethodDescriptor).Output().FullName())
	if err != nil {
		t.Fatal(err)
	}
	return mt.New().Interface()
}

// dead is the id of a run that has died.
func (a *audited) dead() string {
	name := a.put(func(j *pb.Job) {
		j.Schedule = ""
		j.Target = &pb.Target{Kind: &pb.Target_Http{Http: &pb.HttpTarget{Url: "http://127.0.0.1:1/"}}}
		j.FailurePolicy = &pb.FailurePolicy{OnExhausted: pb.OnExhausted_ON_EXHAUSTED_DEAD,
			Kind: &pb.FailurePolicy_Constant{Constant: &pb.ConstantPolicy{Interval: "1ms", MaxRetries: new(uint32(0))}}}
	})
	var id string
	eventually(a.t, "a run is dead", func() bool {
		page, err := a.read.ListRuns(a.t.Context(), carillon.RunQuery{Namespace: "default", Job: name})
		if err == nil && len(page.Runs) > 0 && page.Runs[0].Status == carillon.RunDead {
			id = page.Runs[0].ID
		}
		return id != ""
	})
	return id
}

// requests make a request of each call that changes something.
var requests = map[string]func(a *audited) proto.Message{
	pb.SchedulerService_PutJob_FullMethodName:    func(a *audited) proto.Message { return &pb.PutJobRequest{Job: a.job()} },
	pb.SchedulerService_CreateJob_FullMethodName: func(a *audited) proto.Message { return &pb.CreateJobRequest{Job: a.job()} },
	pb.SchedulerService_BatchPutJobs_FullMethodName: func(a *audited) proto.Message {
		m := &pb.BatchPutJobsRequest{}
		for range 12 { // of several partitions
			m.Jobs = append(m.Jobs, a.job())
		}
		return m
	},
	pb.SchedulerService_PutJobs_FullMethodName: func(a *audited) proto.Message {
		return &pb.PutJobsRequest{Jobs: []*pb.Job{a.job(), a.job(), a.job()}}
	},
	pb.SchedulerService_PatchJob_FullMethodName: func(a *audited) proto.Message {
		return &pb.PatchJobRequest{Name: a.put(nil), Job: &pb.Job{Note: hidden + "2"}, Fields: []string{"note"}}
	},
	pb.SchedulerService_DeleteJob_FullMethodName: func(a *audited) proto.Message {
		return &pb.DeleteJobRequest{Name: a.put(nil)}
	},
	pb.SchedulerService_DeleteJobs_FullMethodName: func(a *audited) proto.Message {
		return &pb.DeleteJobsRequest{Prefix: a.put(nil)}
	},
	pb.SchedulerService_TriggerJob_FullMethodName: func(a *audited) proto.Message {
		return &pb.TriggerJobRequest{Name: a.put(nil), Data: []byte(hidden), Metadata: map[string]string{"m": hidden}}
	},
	pb.SchedulerService_PauseJob_FullMethodName: func(a *audited) proto.Message {
		return &pb.PauseJobRequest{Name: a.put(nil), Note: hidden}
	},
	pb.SchedulerService_ResumeJob_FullMethodName: func(a *audited) proto.Message {
		return &pb.ResumeJobRequest{Name: a.put(nil), Note: hidden}
	},
	pb.SchedulerService_SkipRun_FullMethodName: func(a *audited) proto.Message {
		return &pb.SkipRunRequest{Name: a.put(nil)}
	},
	pb.SchedulerService_CancelRun_FullMethodName: func(a *audited) proto.Message {
		run := a.call(0, pb.SchedulerService_TriggerJob_FullMethodName,
			&pb.TriggerJobRequest{Name: a.put(func(j *pb.Job) {
				j.Target = &pb.Target{Kind: &pb.Target_Worker{Worker: &pb.WorkerTarget{Queue: "q"}}}
			})})
		return &pb.CancelRunRequest{Id: run.(*pb.Run).GetId()}
	},
	pb.SchedulerService_RedriveRun_FullMethodName: func(a *audited) proto.Message {
		return &pb.RedriveRunRequest{Id: a.dead()}
	},
	pb.SchedulerService_RedriveRuns_FullMethodName: func(a *audited) proto.Message {
		a.dead()
		return &pb.RedriveRunsRequest{}
	},
	pb.SchedulerService_BulkRuns_FullMethodName: func(a *audited) proto.Message {
		a.dead()
		return &pb.BulkRunsRequest{All: true,
			Action: pb.RunAction_RUN_ACTION_REDRIVE}
	},
	pb.SchedulerService_BulkJobs_FullMethodName: func(a *audited) proto.Message {
		return &pb.BulkJobsRequest{Prefix: a.put(nil), Label: hidden, Action: pb.JobAction_JOB_ACTION_DELETE}
	},
	pb.SchedulerService_StartBackfill_FullMethodName: func(a *audited) proto.Message {
		return &pb.StartBackfillRequest{Name: a.put(nil), From: timestamppb.New(time.Now().Add(-3 * time.Hour))}
	},
	pb.SchedulerService_CancelBackfill_FullMethodName: func(a *audited) proto.Message {
		b := a.call(0, pb.SchedulerService_StartBackfill_FullMethodName, &pb.StartBackfillRequest{
			Name: a.put(nil), From: timestamppb.New(time.Now().Add(-3 * time.Hour)), Rate: 0.01})
		return &pb.CancelBackfillRequest{Id: b.(*pb.Backfill).GetId()}
	},
	pb.SchedulerService_PutNamespace_FullMethodName: func(a *audited) proto.Message {
		a.n++
		return &pb.PutNamespaceRequest{Name: fmt.Sprint("ns", a.n), ConcurrencyLimits: map[string]int32{hidden: 3},
			Webhooks: []*pb.Webhook{{Name: "w", Url: "https://example.com/" + hidden, Types: []string{"run.dead"},
				Headers: map[string]string{"x": hidden}}}}
	},
	pb.SchedulerService_PutCalendar_FullMethodName: func(a *audited) proto.Message {
		a.n++
		return &pb.PutCalendarRequest{Name: fmt.Sprint("c", a.n), Dates: []string{"2027-01-01"}, Note: hidden}
	},
	pb.SchedulerService_DeleteCalendar_FullMethodName: func(a *audited) proto.Message {
		a.n++
		a.call(0, pb.SchedulerService_PutCalendar_FullMethodName, &pb.PutCalendarRequest{Name: fmt.Sprint("c", a.n)})
		return &pb.DeleteCalendarRequest{Name: fmt.Sprint("c", a.n)}
	},
	pb.PayloadService_PutPayload_FullMethodName: func(*audited) proto.Message {
		return &pb.PutPayloadRequest{Data: []byte(hidden)}
	},
	pb.PayloadService_CollectPayloads_FullMethodName: func(*audited) proto.Message {
		return &pb.CollectPayloadsRequest{}
	},
	pb.ClusterService_PauseQueue_FullMethodName: func(*audited) proto.Message {
		return &pb.PauseQueueRequest{Name: "q", Note: hidden}
	},
	pb.ClusterService_ResumeQueue_FullMethodName: func(*audited) proto.Message { return &pb.ResumeQueueRequest{Name: "q"} },
	pb.ClusterService_PurgeQueue_FullMethodName:  func(*audited) proto.Message { return &pb.PurgeQueueRequest{Name: "q"} },
	pb.AccessService_CreateKey_FullMethodName: func(*audited) proto.Message {
		return &pb.CreateKeyRequest{Note: hidden, Grants: []*pb.AccessGrant{{Role: "viewer", Namespaces: []string{"x"}}}}
	},
	pb.AccessService_RevokeKey_FullMethodName: func(a *audited) proto.Message {
		return &pb.RevokeKeyRequest{Id: a.newKey()}
	},
	pb.AccessService_RotateKey_FullMethodName: func(a *audited) proto.Message {
		return &pb.RotateKeyRequest{Id: a.newKey()}
	},
	pb.ClusterService_DrainNode_FullMethodName: func(*audited) proto.Message { return &pb.DrainNodeRequest{Id: "b"} },
	pb.ClusterService_Rebalance_FullMethodName: func(*audited) proto.Message { return &pb.RebalanceRequest{} },
}

// newKey makes a key and returns its id.
func (a *audited) newKey() string {
	k := a.call(0, pb.AccessService_CreateKey_FullMethodName, &pb.CreateKeyRequest{
		Grants: []*pb.AccessGrant{{Role: "viewer", Namespaces: []string{"x"}}}})
	return k.(*pb.CreateKeyResponse).GetKey().GetId()
}

// changing are all calls that change something; those that move partitions are the last.
func changing(t *testing.T) (all []string) {
	t.Helper()
	protoregistry.GlobalFiles.RangeFilesByPackage("carillon.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				method := fmt.Sprintf("/%s/%s", s.FullName(), s.Methods().Get(j).Name())
				if e := access.EffectOf(method); e == access.Changes || e == access.Spreads {
					all = append(all, method)
				}
			}
		}
		return true
	})
	moves := []string{pb.ClusterService_DrainNode_FullMethodName, pb.ClusterService_Rebalance_FullMethodName}
	slices.Sort(all)
	return append(slices.DeleteFunc(all, func(m string) bool { return slices.Contains(moves, m) }), moves...)
}

func (a *audited) entries(q carillon.AuditQuery) (all []carillon.AuditEntry) {
	a.t.Helper()
	for {
		page, err := a.read.ListAudit(a.t.Context(), q)
		if err != nil {
			a.t.Fatal(err)
		}
		all = append(all, page.Entries...)
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return all
		}
	}
}

// make makes a call at a node, whatever it is.
func (a *audited) make(node int, method string, req proto.Message) {
	a.t.Helper()
	if method != pb.SchedulerService_PutJobs_FullMethodName && method != pb.PayloadService_PutPayload_FullMethodName {
		a.call(node, method, req)
		return
	}
	s, err := a.conns[node].NewStream(a.ctx(), &grpc.StreamDesc{ClientStreams: true}, method)
	if err == nil {
		err = s.SendMsg(req)
	}
	if err == nil {
		err = s.CloseSend()
	}
	if err == nil {
		err = s.RecvMsg(answerOf(a.t, method))
	}
	if err != nil {
		a.t.Fatalf("%s: %v", method, err)
	}
}

// TestEachChangeIsRecordedOnce: every call that changes something leaves one entry that says so, whichever node
// is asked, with who has made it and from where; and nothing of what it has sent. A call that nobody has
// written a request for fails.
func TestEachChangeIsRecordedOnce(t *testing.T) {
	a := startAudited(t)
	who := "key " + a.key.Key.ID
	for _, method := range changing(t) {
		name := method[strings.LastIndexByte(method, '/')+1:]
		request := requests[method]
		if request == nil {
			t.Errorf("there is no request of %s", method)
			continue
		}
		for node := range a.nodes {
			req := request(a) // which may make calls, too
			before := a.entries(carillon.AuditQuery{Action: name, Outcome: carillon.AuditOK})
			a.make(node, method, req)
			after := a.entries(carillon.AuditQuery{Action: name, Outcome: carillon.AuditOK})
			if len(after) != len(before)+1 {
				t.Errorf("%s at node %d: %d entries more", name, node, len(after)-len(before))
				continue
			}
			e := after[0]
			if e.Principal != who || !strings.HasPrefix(e.Address, "127.0.0.1:") || e.Node != []string{"a", "b"}[node] ||
				e.RequestID == "" {
				t.Errorf("%s at node %d: %+v", name, node, e)
			}
			begun := slices.DeleteFunc(a.entries(carillon.AuditQuery{Action: name, Outcome: carillon.AuditBegun}),
				func(b carillon.AuditEntry) bool { return b.RequestID != e.RequestID })
			if spreads := access.EffectOf(method) == access.Spreads; len(begun) > 1 || spreads != (len(begun) == 1) {
				t.Errorf("%s at node %d: it was begun %d times", name, node, len(begun))
			}
			if e.Resource == "" && !slices.Contains([]string{"PutNamespace", "CollectPayloads", "Rebalance", "RedriveRuns",
				"BulkRuns"}, name) {
				t.Errorf("%s: of what? %+v", name, e)
			}
		}
	}
	for _, e := range a.entries(carillon.AuditQuery{PageSize: 1000}) {
		if strings.Contains(fmt.Sprint(e), hidden) {
			t.Errorf("%+v", e)
		}
	}
	all := a.entries(carillon.AuditQuery{PageSize: 1000})
	eventually(t, "the log has a line of each entry", func() bool {
		return strings.Count(a.log.String(), "msg=audit ") == len(all)
	})
	for line := range strings.Lines(a.log.String()) {
		if strings.Contains(line, "msg=audit") && (strings.Contains(line, hidden) || strings.Contains(line, a.key.Secret)) {
			t.Error(line)
		}
	}
	a.wantHeadsInLog()
}

// wantHeadsInLog checks that all chains are whole, and that the log has their heads.
func (a *audited) wantHeadsInLog() {
	a.t.Helper()
	chains, err := a.read.VerifyAudit(a.t.Context(), nil)
	if err != nil || len(chains) < 4 {
		a.t.Errorf("%d chains: %v", len(chains), err)
	}
	for i := range chains {
		c := &chains[i]
		if c.Broken != "" {
			a.t.Errorf("chain %s: %s", c.Chain, c.Broken)
		}
		if !strings.Contains(a.log.String(), fmt.Sprintf("audit.chain=%s audit.seq=%d audit.hash=%s", c.Chain, c.Seq, c.Hash)) {
			a.t.Errorf("the log does not have %s", c.String())
		}
	}
}

// TestRefusalsAreRecorded: of REST and of gRPC, but not all of a flood, whose number is.
func TestRefusalsAreRecorded(t *testing.T) {
	url := "pebble:" + t.TempDir()
	key := firstKey(t, url, carillon.NewKey{Grants: grants(carillon.RoleAdmin, "*")})
	viewer := firstKey(t, url, carillon.NewKey{Grants: grants(carillon.RoleViewer, "default")})
	node := serve(t, server.Config{Store: url, Partitions: 2,
		Extensions: server.Extensions{Auth: server.AuthKeys, Audit: server.Audit{To: server.AuditStore}}})
	a := &audited{t: t, key: key, read: dialWith(t, node, key.Secret)}
	mine := dialWith(t, node, viewer.Secret)
	if _, err := mine.DeleteJob(t.Context(), carillon.Key{Name: "x"}); err == nil {
		t.Error("a viewer may delete")
	}
	web := &http.Client{Timeout: time.Minute}
	put, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
		"http://"+node.HTTPAddr()+"/v1/namespaces/default/jobs/r", bytes.NewReader([]byte(`{"schedule":"@daily","target":{"worker":{"queue":"q"}}}`)))
	if err != nil {
		t.Fatal(err)
	}
	put.Header.Set("Authorization", "Bearer "+key.Secret)
	put.Header.Set("Content-Type", "application/json")
	if res, err := web.Do(put); err != nil || res.StatusCode != http.StatusCreated {
		t.Fatal(res, err)
	}
	login := &browser{t: t, url: "http://" + node.HTTPAddr(), client: web}
	wrong := strings.Replace(key.Secret, key.Key.ID, viewer.Key.ID, 1)
	for _, body := range []string{`{"key": "` + wrong + `"}`, `{}`} {
		if code, text := login.ask("POST", "/v1/session", body); code != http.StatusUnauthorized {
			t.Error(code, text)
		}
	}
	eventually(t, "refused logins are recorded", func() bool {
		return len(a.entries(carillon.AuditQuery{Action: "BeginSession", Outcome: "unauthenticated"})) == 2
	})
	const flood = 400
	for range flood {
		res, err := web.Get("http://" + node.HTTPAddr() + "/v1/namespaces/default/jobs")
		if err != nil || res.StatusCode != http.StatusUnauthorized {
			t.Fatal(res, err)
		}
		_ = res.Body.Close()
	}
	refused := func(outcome string) []carillon.AuditEntry { return a.entries(carillon.AuditQuery{Outcome: outcome}) }
	eventually(t, "refusals are recorded", func() bool {
		return len(refused("unauthenticated")) > 50 && len(refused("permission_denied")) == 1
	})
	if e := refused("permission_denied")[0]; e.Principal != "key "+viewer.Key.ID || e.Action != "DeleteJob" ||
		e.Resource != "x" {
		t.Errorf("%+v", e)
	}
	if all := refused("unauthenticated"); len(all) > 300 || all[0].Principal != "anonymous" ||
		!strings.HasPrefix(all[0].Address, "127.0.0.1:") {
		t.Errorf("%d of %d: %+v", len(all), flood, all[0])
	}
	if all := a.entries(carillon.AuditQuery{Action: "PutJob"}); len(all) != 1 || all[0].Outcome != "ok" ||
		!strings.HasPrefix(all[0].Address, "127.0.0.1:") {
		t.Errorf("by REST: %+v", all)
	}
}

// TestDenialsOfBrowsersAreRecorded: of pages of other origins, and of names that are not the node's; bounded
// as other refusals are.
func TestDenialsOfBrowsersAreRecorded(t *testing.T) {
	log := &syncBuffer{}
	node := serve(t, server.Config{Store: "memory:", Partitions: 1,
		Extensions: server.Extensions{Audit: server.Audit{To: server.AuditLog, Log: slog.New(slog.NewTextHandler(log, nil))}}})
	ask := func(change func(r *http.Request)) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+node.HTTPAddr()+"/v1/namespaces/default/jobs", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		res, err := (&http.Client{Timeout: time.Minute}).Do(r)
		if err != nil || res.StatusCode != http.StatusForbidden {
			t.Fatal(res, err)
		}
		_ = res.Body.Close()
	}
	foreign := func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }
	for what, change := range map[string]func(r *http.Request){
		"Origin": foreign, "Host": func(r *http.Request) { r.Host = "evil.example" }} {
		ask(change)
		eventually(t, what+" is recorded", func() bool {
			return strings.Contains(log.String(), "audit.action=HTTP audit.outcome=permission_denied") &&
				strings.Contains(log.String(), "audit.fields=["+what+"]")
		})
	}
	if !strings.Contains(log.String(), "audit.principal=anonymous audit.address=127.0.0.1:") || strings.Contains(log.String(), "evil") {
		t.Error(log)
	}
	const flood = 300
	for range flood {
		ask(foreign)
	}
	eventually(t, "a flood is bounded", func() bool { return strings.Count(log.String(), "audit.action=HTTP") > 80 })
	if n := strings.Count(log.String(), "audit.action=HTTP"); n >= flood {
		t.Errorf("%d of %d are recorded", n, flood)
	}
}

// TestFailuresAreCounted: those that are left out are counted by the next entry of one that is not.
func TestFailuresAreCounted(t *testing.T) {
	log := &syncBuffer{}
	s, stop := serveUntil(t, server.Config{Store: "memory:", Partitions: 2, Log: slog.New(slog.NewTextHandler(log, nil)),
		Extensions: server.Extensions{Audit: server.Audit{To: server.AuditLog}}})
	c := dial(t, s)
	for range 300 {
		if _, err := c.DeleteJob(t.Context(), carillon.Key{Name: "nothere"}); err == nil {
			t.Fatal("it is there")
		}
	}
	stop()
	lines, left := 0, 0
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "msg=audit") && strings.Contains(line, "DeleteJob") {
			lines++
		}
		if _, n, ok := strings.Cut(line, "audit.left_out="); ok {
			more := 0
			if _, err := fmt.Sscan(n, &more); err != nil {
				t.Fatal(err)
			}
			left += more
		}
	}
	if lines+left != 300 || left == 0 {
		t.Errorf("%d lines, and %d left out", lines, left)
	}
}

func dialWith(t *testing.T, s *server.Server, token string) *client.Client {
	t.Helper()
	c, err := client.Dial(s.GRPCAddr(), client.WithToken(token))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
