package ingest

import (
	"context"

	"github.com/carillonhq/carillon/server/internal/message"
)

// groupBytes bounds the content of the messages of a group. A message that is larger is a group of its own.
const groupBytes = 512 << 10

// group is messages that came together, of different jobs of one partition. They are tried together, once;
// what that leaves open goes its own way.
type group struct {
	items []*item
	bytes int
}

// groups are those that a topic has received and that have not begun, by partition.
type groups struct {
	g  *Ingest
	of map[int]*group
}

// add adds a message, which has its place under way.
func (gs *groups) add(ctx, calls context.Context, it *item) {
	p := gs.g.o.To.PartitionOf(it.cmd.Key)
	all := gs.of[p]
	if all != nil && (len(all.items) == message.MaxCommands || all.bytes+len(it.d.Data) > groupBytes) {
		gs.start(ctx, calls, p)
		all = nil
	}
	if all == nil {
		all = &group{}
		gs.of[p] = all
	}
	all.items, all.bytes = append(all.items, it), all.bytes+len(it.d.Data)
}

// begin begins all that were added.
func (gs *groups) begin(ctx, calls context.Context) {
	for p := range gs.of {
		gs.start(ctx, calls, p)
	}
}

func (gs *groups) start(ctx, calls context.Context, p int) {
	g, items := gs.g, gs.of[p].items
	delete(gs.of, p)
	if len(items) == 1 {
		g.running.Go(func() { g.follow(ctx, calls, items[0]) })
		return
	}
	g.running.Go(func() { g.together(ctx, calls, p, items) })
}

// together tries messages of a partition together. Those that are done are acknowledged; for each of the
// others, and for each that follows one, another goroutine goes on. Why none could be done is logged and
// counted at once: alone, each of them may take as long as all have.
func (g *Ingest) together(ctx, calls context.Context, p int, items []*item) {
	alone := func(it *item) {
		if it != nil {
			g.running.Go(func() { g.follow(ctx, calls, it) })
		}
	}
	var begun []*item
	var all []message.Command
	for _, it := range items {
		if ctx.Err() != nil || !it.d.Begin() {
			alone(it) // where it is released
			continue
		}
		begun, all = append(begun, it), append(all, it.cmd)
	}
	if len(begun) == 0 {
		return
	}
	decided, err := g.o.To.DoAll(g.limit.of(calls), p, all)
	again := err != nil && !refused(err) && calls.Err() == nil // what is refused is told so alone
	for i, it := range begun {
		outcome := Done
		switch {
		case i < len(decided) && decided[i] == message.Apart:
			alone(it)
			continue
		case i >= len(decided) || decided[i] == message.Open:
			if again {
				g.triedAgain(it, err)
			}
			alone(it)
			continue
		case decided[i] == message.Repeated:
			outcome = Repeated
		}
		g.acknowledge(it, outcome)
		alone(g.over(it))
	}
}
