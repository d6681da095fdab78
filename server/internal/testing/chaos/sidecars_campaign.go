package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/carillonhq/carillon"
	common "github.com/carillonhq/carillon/api/dapr/proto/common/v1"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/testing/deliveries"
	"github.com/carillonhq/carillon/server/internal/testing/link"
	"github.com/carillonhq/carillon/server/store"
)

// SidecarOptions of a campaign with nodes in the place of Dapr's scheduler.
type SidecarOptions struct {
	Binary string
	Folder string  // of a node that is alone
	Store  Backend // of several
	Nodes  int
	Cycles int
	Seed   uint64
	Log    func(format string, args ...any)
}

// daprNode is a node, the way of sidecars to it, and its own way to the store.
type daprNode struct {
	*Node
	name string
	door *link.Link
	back *link.Link // nil: it has a folder
}

// sidecarCampaign is one run of it.
type sidecarCampaign struct {
	o        SidecarOptions
	nodes    []*daprNode
	sidecars []*sidecar
	book     triggerBook
	dice     dice
	good     chan struct{} // closed when sidecars are to do nothing wrong any more

	mu     sync.Mutex
	orders []*deliveries.Order
	faults []deliveries.Fault
}

// RunSidecars works over nodes in the place of Dapr's scheduler, and returns what sidecars saw and what the
// nodes say in the end.
func RunSidecars(ctx context.Context, o SidecarOptions) (deliveries.Triggers, error) {
	c := &sidecarCampaign{o: o, dice: newDice(o.Seed, "nemesis"), good: make(chan struct{})}
	defer c.close()
	for i := range o.Nodes {
		n, err := c.node(i)
		if err != nil {
			return deliveries.Triggers{}, err
		}
		c.nodes = append(c.nodes, n)
	}
	for _, n := range c.nodes {
		if err := errors.Join(n.Start(), n.ready(ctx)); err != nil {
			return deliveries.Triggers{}, err
		}
	}
	living, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	for i, app := range []string{"shop", "shop", "billing"} {
		s := &sidecar{name: fmt.Sprintf("%s-%d", app, i), app: app, good: c.good, book: &c.book,
			dice: newDice(o.Seed, fmt.Sprint("sidecar ", i))}
		if i > 0 {
			s.types = []string{"Cart"}
		}
		for _, n := range c.nodes {
			s.ways = append(s.ways, n.door.Address())
		}
		c.sidecars = append(c.sidecars, s)
		all.Go(func() { s.run(living) })
	}
	putting, stop := context.WithCancel(living)
	var users sync.WaitGroup
	for i := range 3 {
		users.Go(func() { c.use(putting, i) })
	}
	err := c.worry(ctx)
	stop()
	users.Wait()
	close(c.good)
	if err != nil {
		return deliveries.Triggers{}, err
	}
	return c.rest(ctx)
}

// node makes a node, not started.
func (c *sidecarCampaign) node(i int) (*daprNode, error) {
	n := &daprNode{name: fmt.Sprintf("scheduler-%d", i)}
	url := ""
	if c.o.Store.URL != "" {
		var err error
		if n.back, err = link.Listen(c.o.Store.Address, link.Options{}); err != nil {
			return nil, err
		}
		url = strings.Replace(c.o.Store.URL, c.o.Store.Address, n.back.Address(), 1)
	}
	var err error
	if n.Node, err = NewNode(c.o.Binary, url, "--id", n.name); err != nil {
		return nil, err
	}
	if c.o.Store.URL == "" {
		n.Flags = append(n.Flags, "--etcd-data-dir", c.o.Folder)
	}
	if n.Dapr, err = freeAddress(); err != nil {
		return nil, err
	}
	n.door, err = link.Listen(n.Dapr, link.Options{From: func(net.Conn) string { return Outside }})
	return n, err
}

// ready waits until the node is.
func (n *daprNode) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	return n.Ready(ctx)
}

// close ends all nodes.
func (c *sidecarCampaign) close() {
	for _, n := range c.nodes {
		_ = n.Kill() // it may be gone
		_ = n.door.Close()
		if n.back != nil {
			_ = n.back.Close()
		}
	}
}

// broken notes a fault; what it returns notes its end.
func (c *sidecarCampaign) broken(kind string, holds bool) (healed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := len(c.faults)
	c.faults = append(c.faults, deliveries.Fault{Kind: kind, From: time.Now(), To: time.Now().Add(time.Hour),
		Holds: holds})
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.faults[i].To = time.Now()
	}
}

// worry does all cycles.
func (c *sidecarCampaign) worry(ctx context.Context) error {
	hows := []string{"kill", "kill", "freeze", "leave", "sidecar killed", "sidecar hung", "sidecars cut",
		"door held"}
	if c.o.Store.URL != "" {
		hows = append(hows, "store cut", "kill most", "leave")
	}
	for i := range c.o.Cycles {
		if err := pause(ctx, c.dice.between(300*time.Millisecond, 2*time.Second)); err != nil {
			return err
		}
		how := pick(c.dice, hows...)
		c.o.Log("cycle %d: %s", i, how)
		begun := time.Now()
		if err := c.cycle(ctx, how); err != nil {
			return fmt.Errorf("cycle %d, %s: %w", i, how, err)
		}
		c.o.Log("cycle %d: over after %v", i, time.Since(begun).Round(time.Millisecond))
	}
	return nil
}

// cycle does one fault and takes it back.
func (c *sidecarCampaign) cycle(ctx context.Context, how string) error {
	n, s := pick(c.dice, c.nodes...), pick(c.dice, c.sidecars...)
	short := func() error { return pause(ctx, c.dice.between(100*time.Millisecond, 4*time.Second)) }
	defer c.broken(how, how == "freeze" || how == "sidecar hung" || how == "door held" || how == "store cut")()
	switch how {
	case "kill":
		return c.again(ctx, []*daprNode{n}, n.Kill, short)
	case "kill most":
		some := c.nodes[1:]
		return c.again(ctx, some, func() (err error) {
			for _, n := range some {
				err = errors.Join(err, n.Kill())
			}
			return err
		}, short)
	case "leave":
		return c.again(ctx, []*daprNode{n}, func() error { return n.Leave(ctx) }, short)
	case "freeze":
		if err := n.Freeze(); err != nil {
			return err
		}
		return errors.Join(pause(ctx, c.dice.between(time.Second, 8*time.Second)), n.Thaw(), n.ready(ctx))
	case "sidecar killed":
		s.kill()
	case "sidecar hung":
		wake := s.hang()
		err := pause(ctx, c.dice.between(time.Second, 8*time.Second))
		wake()
		return err
	case "sidecars cut":
		n.door.Cut(link.Broken)
		err := short()
		n.door.Heal()
		return err
	case "door held":
		n.door.Cut(link.Silent)
		err := short()
		n.door.Heal()
		return err
	case "store cut":
		n.back.Cut(pick(c.dice, link.Silent, link.Broken))
		err := short()
		n.back.Heal()
		return errors.Join(err, n.ready(ctx))
	}
	return nil
}

// again ends nodes and starts them again after a while.
func (c *sidecarCampaign) again(ctx context.Context, some []*daprNode, end, wait func() error) error {
	if err := errors.Join(end(), wait()); err != nil {
		return err
	}
	for _, n := range some {
		if err := n.Start(); err != nil {
			return err
		}
	}
	for _, n := range some {
		if err := n.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// use is one user, who puts, overwrites and deletes jobs of its own.
func (c *sidecarCampaign) use(ctx context.Context, number int) {
	d := newDice(c.o.Seed, fmt.Sprint("user ", number))
	var names []string
	for i := 0; pause(ctx, d.between(10*time.Millisecond, 150*time.Millisecond)) == nil; i++ {
		name := fmt.Sprintf("u%d-%d", number, i)
		prefix := pick(d, "dapr/app/shop/", "dapr/app/billing/", "dapr/actor/Cart/1/")
		o := &deliveries.Order{Job: prefix + name, Payload: name, Runs: 1, Retries: d.IntN(4)}
		old := len(names) > 0 && d.chance(6)
		if old {
			o.Job = names[d.IntN(len(names))]
		} else if d.chance(3) {
			names = append(names, o.Job)
			names = names[max(0, len(names)-8):]
		}
		switch {
		case old && d.chance(3):
			o.Payload = ""
		case d.chance(2):
			o.Runs, o.Every = 2+d.IntN(4), d.between(500*time.Millisecond, 2*time.Second).Round(time.Millisecond)
		}
		c.order(ctx, o, d)
	}
}

// callWithin is how long a user waits for an answer.
const callWithin = 5 * time.Second

// order calls a node.
func (c *sidecarCampaign) order(ctx context.Context, o *deliveries.Order, d dice) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callWithin)
	defer cancel()
	conn, err := dialDapr(pick(d, c.nodes...).door.Address())
	if err != nil {
		return
	}
	defer conn.Close()
	o.Invoke = time.Now()
	c.mu.Lock()
	c.orders = append(c.orders, o)
	c.mu.Unlock()
	err = say(ctx, pb.NewSchedulerClient(conn), o, d)
	c.mu.Lock()
	o.Return, o.Acked = time.Now(), err == nil
	c.mu.Unlock()
}

// say is the call.
func say(ctx context.Context, s pb.SchedulerClient, o *deliveries.Order, d dice) error {
	levels := strings.Split(o.Job, "/")
	m := &pb.JobMetadata{Namespace: namespace, AppId: "shop", Target: &pb.JobTargetMetadata{}}
	if levels[1] == "app" {
		m.AppId, m.Target.Type = levels[2], &pb.JobTargetMetadata_Job{Job: &pb.TargetJob{}}
	} else {
		m.Target.Type = &pb.JobTargetMetadata_Actor{Actor: &pb.TargetActorReminder{Type: levels[2], Id: levels[3]}}
	}
	name := levels[len(levels)-1]
	if o.Payload == "" {
		_, err := s.DeleteJob(ctx, &pb.DeleteJobRequest{Name: name, Metadata: m})
		return err
	}
	job := &pb.Job{Data: &anypb.Any{TypeUrl: "chaos", Value: []byte(o.Payload)},
		FailurePolicy: &common.JobFailurePolicy{Policy: &common.JobFailurePolicy_Constant{
			Constant: &common.JobFailurePolicyConstant{MaxRetries: new(uint32(o.Retries)),
				Interval: durationpb.New(d.between(0, 500*time.Millisecond))}}}}
	if o.Every > 0 {
		job.Schedule, job.Repeats = new("@every "+o.Every.String()), new(uint32(o.Runs))
	}
	if o.Every == 0 || d.chance(2) {
		job.DueTime = new(d.between(0, 2*time.Second).Round(time.Millisecond).String())
	}
	_, err := s.ScheduleJob(ctx, &pb.ScheduleJobRequest{Name: name, Metadata: m, Job: job, Overwrite: true})
	if status.Code(err) == codes.AlreadyExists {
		return fmt.Errorf("an overwrite was refused: %w", err)
	}
	return err
}

// endWithin is how long everything may take to end: jobs, and what waits for a stream that is gone.
const endWithin = 100 * time.Second

// rest waits until all jobs have ended, and reads their history.
func (c *sidecarCampaign) rest(ctx context.Context) (deliveries.Triggers, error) {
	cl, err := client.Dial(c.nodes[0].GRPC)
	if err != nil {
		return deliveries.Triggers{}, err
	}
	defer cl.Close()
	within, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	for {
		page, err := cl.ListJobs(within, carillon.JobQuery{Namespace: namespace, Prefix: carillon.DaprPrefix})
		if err == nil && len(page.Jobs) == 0 {
			break
		}
		c.o.Log("not at rest: %d jobs, such as %s", len(page.Jobs), firstOf(page.Jobs))
		if pause(within, 2*time.Second) != nil {
			return deliveries.Triggers{}, fmt.Errorf("%d jobs have not ended, such as %s: %w", len(page.Jobs),
				firstOf(page.Jobs), err)
		}
	}
	c.o.Log("at rest")
	t := deliveries.Triggers{Seen: c.book.all(), Faults: c.faults, Wire: wireTime, Lazy: 2 * time.Second,
		Recovery: 5 * time.Second}
	names := map[string]bool{}
	for _, o := range c.orders {
		t.Orders = append(t.Orders, *o)
		if names[o.Job] {
			continue
		}
		names[o.Job] = true
		page, err := cl.ListRuns(ctx,
			carillon.RunQuery{Namespace: namespace, Job: o.Job, PageSize: carillon.MaxBatch})
		if err != nil {
			return t, err
		}
		for i := range page.Runs {
			if page.Runs[i].Status.Finished() {
				t.Runs = append(t.Runs, recordedOf(&page.Runs[i]))
			}
		}
	}
	return t, nil
}

func firstOf(jobs []carillon.Job) string {
	if len(jobs) == 0 {
		return "none"
	}
	return fmt.Sprintf("%s (%s)", jobs[0].Name, jobs[0].Status.Phase)
}

// recordedOf is a run in the words of the judge.
func recordedOf(r *carillon.Run) deliveries.Recorded {
	out := deliveries.Recorded{ID: r.ID, Job: r.Job, Status: r.Status.String(), Scheduled: r.Scheduled,
		Finished: r.Finished, Attempt: r.Attempt}
	if id, err := store.ParseRunID(r.ID); err == nil {
		out.Life = id.UID.String()
	}
	return out
}
