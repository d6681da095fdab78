package dapr

import (
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dapr/durabletask-go/workflow"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// Jobs and a workflow in flight move from Dapr's scheduler to Carillon at the same address, and back, under a
// sidecar that runs all the time: each job comes as often as was asked, neither more nor less.
func TestMoveOverAndBack(t *testing.T) {
	if *original {
		t.Skip("it is about both schedulers")
	}
	in := install(t)
	dapr := in.scheduler(program(t, "scheduler"), []string{flag("id", member(0)), flag("etcd-data-dir", t.TempDir()),
		flag("etcd-initial-cluster", member(0)+"=http://"+local(realserver.Port(t)))})
	in.schedulers = []*scheduler{dapr}
	dapr.up(t)
	s := in.sidecar(newApp(t, "shop"), "")
	r := workflow.NewRegistry()
	must(t, r.AddWorkflowN("order", func(c *workflow.WorkflowContext) (any, error) {
		return "done", c.CreateTimer(15 * time.Second).Await(nil)
	}))
	flow := s.workflows(t, r)
	id, err := flow.ScheduleWorkflow(t.Context(), "order")
	must(t, err)
	const often, rarely = 30, 5
	for name, j := range map[string]job{
		"often":  {Schedule: "@every 2s", Repeats: often, Data: "x"},
		"rarely": {Schedule: "@every 7s", Repeats: rarely},
		"soon":   {DueTime: "8s"},
		"later":  {DueTime: "50s"},
		"never":  {DueTime: "24h"},
	} {
		must(t, s.put(t.Context(), name, j))
	}
	s.app.calls(t, "/job/often", 2)
	dapr.down(t, syscall.SIGTERM)

	ours := *dapr // the same addresses
	ours.program.Path = carillon(t)
	ours.api = local(realserver.Port(t))
	ours.program.Args = append(append([]string{"dapr-scheduler"}, dapr.program.Args...), flag("etcd-data-dir", t.TempDir()),
		flag("import-from", dapr.option("etcd-data-dir")), flag("grpc-listen", ours.api))
	ours.up(t)
	if m, err := flow.WaitForWorkflowCompletion(t.Context(), id); err != nil || m.Output.GetValue() != `"done"` {
		t.Fatalf("the workflow: %v, %v", m, err)
	}
	s.app.calls(t, "/job/often", often/2)

	// Back: the jobs go into the etcd of Dapr's scheduler, which has no sidecars meanwhile.
	aside := in.scheduler(dapr.program.Path, []string{flag("id", member(0)),
		flag("etcd-data-dir", dapr.option("etcd-data-dir")), flag("etcd-initial-cluster", dapr.option("etcd-initial-cluster"))})
	aside.up(t)
	must(t, syscall.Kill(s.process.PID(), syscall.SIGSTOP)) // or a job would come on both sides
	export := exec.CommandContext(t.Context(), ours.program.Path, "dapr", "export", "--server", ours.api, "--replace",
		"--while-running", "http://"+aside.etcd)
	if out, err := export.CombinedOutput(); err != nil {
		t.Fatalf("export: %v\n%s", err, out)
	}
	ours.down(t, syscall.SIGTERM)
	aside.down(t, syscall.SIGTERM)
	dapr.up(t)
	must(t, syscall.Kill(s.process.PID(), syscall.SIGCONT))
	ended(t, s, "often", "rarely", "soon", "later")
	for path, n := range map[string]int{"/job/often": often, "/job/rarely": rarely, "/job/soon": 1, "/job/later": 1,
		"/job/never": 0} {
		if got := len(s.app.times(path)); got != n {
			t.Errorf("%s was called %d times, want %d", path, got, n)
		}
	}
}

// option is the value that a member's last flag of a name has.
func (s *scheduler) option(name string) (value string) {
	for _, arg := range slices.Backward(s.program.Args) {
		if v, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return v
		}
	}
	return ""
}
