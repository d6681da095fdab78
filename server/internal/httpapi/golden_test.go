package httpapi_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/server/internal/httpapi"
)

var rewrite = flag.Bool("rewrite", false, "write what the node answers into the golden files")

// TestGolden plays the scripts in testdata against a node. A script is made of blocks like
//
//	rest PUT /v1/namespaces/default/jobs/a If-Match="1"
//	{"schedule": "@daily"}
//	----
//	200 ETag="2"
//	{"job": …}
//
// with a command, what it sends, and what it must answer, times and ids masked. The commands are rest METHOD
// PATH HEADER=VALUE…, grpc METHOD, and work QUEUE, which connects a worker, takes one run and sends the
// result that follows. {run} is the id of the run that was seen last, {token} its token.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p := player{node: startNode(t)}
			played := p.play(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(played), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if played != string(text) {
				t.Errorf("answers differ; see what changed with -rewrite:\n%s", firstDifference(string(text), played))
			}
		})
	}
}

// player plays one script.
type player struct {
	*node
	run, token string
}

func (p *player) play(t *testing.T, script string) string {
	t.Helper()
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(script), "\n\n") {
		if out.Len() > 0 {
			out.WriteString("\n\n")
		}
		if strings.HasPrefix(block, "#") {
			out.WriteString(block)
			continue
		}
		ask, _, _ := strings.Cut(block, "\n----")
		fmt.Fprintf(&out, "%s\n----\n%s", ask, p.mask(p.do(t, ask)))
	}
	return out.String() + "\n"
}

// do plays one command.
func (p *player) do(t *testing.T, ask string) string {
	t.Helper()
	ask = strings.NewReplacer("{run}", p.run, "{token}", p.token).Replace(ask)
	line, body, _ := strings.Cut(ask, "\n")
	words := strings.Fields(line)
	switch words[0] {
	case "rest":
		return p.doREST(t, words[1], words[2], body, words[3:])
	case "grpc":
		return p.doGRPC(t, words[1], body)
	case "work":
		return p.work(t, words[1], body)
	}
	t.Fatalf("no such command: %s", line)
	return ""
}

func (p *player) doREST(t *testing.T, method, path, body string, headers []string) string {
	t.Helper()
	var pairs []string
	for _, h := range headers {
		name, value, _ := strings.Cut(h, "=")
		pairs = append(pairs, name, value)
	}
	a := p.rest(t, method, path, body, pairs...)
	first := fmt.Sprint(a.status)
	for _, name := range []string{"ETag", "Location", "Allow", "Retry-After"} {
		if v := a.header.Get(name); v != "" {
			first += " " + name + "=" + v
		}
	}
	return strings.TrimSpace(first + "\n" + a.body)
}

// doGRPC calls a method by its name, with its messages in JSON.
func (p *player) doGRPC(t *testing.T, method, body string) string {
	t.Helper()
	service := pb.File_carillon_v1_scheduler_proto.Services().ByName("SchedulerService")
	if service.Methods().ByName(protoreflect.Name(method)) == nil {
		service = pb.File_carillon_v1_cluster_proto.Services().ByName("ClusterService")
	}
	md := service.Methods().ByName(protoreflect.Name(method))
	req, reply := message(t, md.Input()), message(t, md.Output())
	if _, err := httpapi.Unmarshal([]byte(body), req); err != nil {
		t.Fatal(err)
	}
	if err := p.conn.Invoke(t.Context(), "/"+string(service.FullName())+"/"+method, req, reply); err != nil {
		st := status.Convert(err)
		var details strings.Builder
		for _, d := range st.Details() {
			details.WriteString("\n" + strings.TrimSpace(string(httpapi.Marshal(d.(proto.Message)))))
		}
		return st.Code().String() + " " + st.Message() + details.String()
	}
	return "OK\n" + strings.TrimSpace(string(httpapi.Marshal(reply)))
}

func message(t *testing.T, md protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	mt, err := protoregistry.GlobalTypes.FindMessageByName(md.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return mt.New().Interface()
}

// work connects a worker that takes one run, sends the result and waits for the answer to it.
func (p *player) work(t *testing.T, queue, body string) string {
	t.Helper()
	stream, err := p.grpc.Work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	send := func(m *pb.WorkRequest) {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	send(&pb.WorkRequest{Hello: &pb.Hello{WorkerId: "w1", Queues: []string{queue}},
		Credits: []*pb.Credit{{Queue: queue, N: 1}}})
	var out strings.Builder
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range m.GetRuns() {
			p.run, p.token = r.GetId(), r.GetToken()
			out.WriteString("run " + string(httpapi.Marshal(r)))
			if body == "" {
				return strings.TrimSpace(out.String()) // the worker goes, and keeps the run
			}
			result := &pb.Result{Token: p.token, RunId: p.run}
			if _, err := httpapi.Unmarshal([]byte(body), result); err != nil {
				t.Fatal(err)
			}
			send(&pb.WorkRequest{Results: []*pb.Result{result}})
		}
		if len(m.GetAcks())+len(m.GetStale()) > 0 {
			fmt.Fprintf(&out, "acks %d, stale %d", len(m.GetAcks()), len(m.GetStale()))
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
			for err == nil { // until the node knows that the worker has left: puts say whether anybody serves the queue
				_, err = stream.Recv()
			}
			return out.String()
		}
	}
}

var (
	anyTime  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	anyPage  = regexp.MustCompile(`"next_page_token":"[^"]+"`)
	anyUID   = regexp.MustCompile(`"uid":"[^"]*"`)
	anyToken = regexp.MustCompile(`"token":"[^"]*"`)
	anyRun   = regexp.MustCompile(`"id":"([0-9a-v]{40,})"`)
	ofFill   = regexp.MustCompile(`"backfill":"[^"]*"`)
	anySkew  = regexp.MustCompile(`"skew":"[^"]*"`)
	anyPort  = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	anyULID  = regexp.MustCompile(`[0-9A-Z]{26}`)
)

// mask hides what differs from one time to the next, and remembers the run that was seen last. A time long
// ahead was written in the script and stays.
func (p *player) mask(answer string) string {
	for _, m := range anyRun.FindAllStringSubmatch(answer, -1) {
		p.run = m[1]
	}
	if p.run != "" {
		answer = strings.ReplaceAll(answer, p.run, "RUN")
	}
	answer = anyRun.ReplaceAllString(answer, `"id":"RUN"`)
	answer = ofFill.ReplaceAllString(answer, `"backfill":"ID"`)
	answer = anyUID.ReplaceAllString(answer, `"uid":"UID"`)
	answer = anyPage.ReplaceAllString(answer, `"next_page_token":"PAGE"`)
	answer = anyToken.ReplaceAllString(answer, `"token":"TOKEN"`)
	answer = anySkew.ReplaceAllString(answer, `"skew":"SKEW"`)
	answer = anyPort.ReplaceAllString(answer, "127.0.0.1:PORT")
	answer = anyULID.ReplaceAllString(answer, "ULID")
	return anyTime.ReplaceAllStringFunc(answer, func(at string) string {
		if at >= "2090" {
			return at
		}
		return "TIME"
	})
}

func firstDifference(want, got string) string {
	ws, gs := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(ws), len(gs)) {
		if ws[i] != gs[i] {
			return fmt.Sprintf("line %d:\nwant %s\n got %s", i+1, ws[i], gs[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(gs), len(ws))
}
