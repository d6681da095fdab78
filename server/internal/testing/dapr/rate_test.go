package dapr

import (
	stdflag "flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dapr/durabletask-go/workflow"
)

// workflowsOfRate is how many workflows TestWorkflowRate has each scheduler carry.
var workflowsOfRate = stdflag.Int("workflows", 0,
	"measure so many workflows with Carillon and with Dapr's own scheduler in turn")

// TestWorkflowRate prints how many workflows of three activities a second one sidecar gets done, and what CPU
// time the scheduler takes for each: with Carillon and with Dapr's own scheduler in turn, each on an empty
// folder, three times. It judges nothing but that all end.
func TestWorkflowRate(t *testing.T) {
	if *workflowsOfRate == 0 {
		t.Skip("it measures only; -workflows=1000 has it run")
	}
	defer func(was bool) { *original = was }(*original)
	for round := range 3 {
		for _, *original = range []bool{false, true} {
			name := "Carillon"
			if *original {
				name = "Dapr"
			}
			t.Run(fmt.Sprint(name, round+1), measureWorkflows)
		}
	}
}

func measureWorkflows(t *testing.T) {
	const atOnce = 32
	in, s := alone(t, "flow")
	r := workflow.NewRegistry()
	must(t, r.AddWorkflowN("order", func(c *workflow.WorkflowContext) (any, error) {
		for range 3 {
			if err := c.CallActivity("pack").Await(nil); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}))
	must(t, r.AddActivityN("pack", func(workflow.ActivityContext) (any, error) { return nil, nil }))
	c := s.workflows(t, r)
	next := make(chan struct{}, *workflowsOfRate)
	for range *workflowsOfRate {
		next <- struct{}{}
	}
	close(next)
	scheduler := in.schedulers[0].process.PID()
	began, used := time.Now(), cpuTime(t, scheduler)
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for range next {
				id, err := c.ScheduleWorkflow(t.Context(), "order")
				if err == nil {
					var m *workflow.WorkflowMetadata
					if m, err = c.WaitForWorkflowCompletion(t.Context(), id); err == nil && m.RuntimeStatus != workflow.StatusCompleted {
						err = fmt.Errorf("workflow %s ended as %v", id, m.RuntimeStatus)
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	took, spent := time.Since(began), cpuTime(t, scheduler)-used
	n := *workflowsOfRate
	t.Logf("%d workflows in %.1f s: %.0f/s, %v of the scheduler's CPU for each", n, took.Seconds(),
		float64(n)/took.Seconds(), (spent / time.Duration(n)).Round(time.Microsecond))
}

// cpuTime returns what CPU time a process has used, as Linux counts it: in hundredths of a second.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	_, rest, _ := strings.Cut(string(text), ") ") // the name before may hold anything
	fields := strings.Fields(rest)
	const user, system = 14 - 3, 15 - 3 // the first one here is the third
	if len(fields) <= system {
		t.Fatalf("/proc/%d/stat is %q", pid, text)
	}
	var ticks [2]int64
	for i, field := range []string{fields[user], fields[system]} {
		_, err := fmt.Sscan(field, &ticks[i])
		must(t, err)
	}
	return time.Duration(ticks[0]+ticks[1]) * time.Second / 100
}
