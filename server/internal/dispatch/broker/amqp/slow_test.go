package amqp

import (
	"fmt"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// suspend has a queue answer nothing, as one without a majority does, until it resumes.
func (r *rig) suspend(t *testing.T, queue string) (resume func()) {
	t.Helper()
	eval := func(call string) {
		r.Eval(t, fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)),
			sys:%s(amqqueue:get_pid(Q)).`, queue, call))
	}
	eval("suspend")
	return func() { eval("resume") }
}

// A queue that answers nothing holds up no other one, however many routing keys lead to it.
func testSlowQueue(t *testing.T, r *rig) {
	for kind, args := range map[string]amqp091.Table{"classic": nil, "quorum": {"x-queue-type": "quorum"}} {
		t.Run(kind, func(t *testing.T) {
			slow := r.queue(t, args)
			exchange := slow + ".exchange"
			must(t, r.owner.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil))
			must(t, r.owner.QueueBind(slow, "", exchange, false, nil))
			quick, err := r.owner.QueueDeclare(slow+".quick", true, false, false, false, nil)
			must(t, err)
			c := client(t, r.options())
			c.spareAfter = 100 * time.Millisecond
			connections := func() int {
				c.mu.Lock()
				defer c.mu.Unlock()
				return len(c.links)
			}
			want(t, publish(t, c, append(many("", slow, 1), many("", quick.Name, 1)...)...), kinds{acknowledged: 2})
			resume := r.suspend(t, slow)
			stuck := start(t.Context(), t, c, many("", slow, 2*window))
			var keys []broker.Message
			for i := range 2*maxChannels + 1 {
				key := fmt.Sprintf("%03d", i)
				keys = append(keys, message(exchange, key, key, 1))
			}
			more := start(t.Context(), t, c, keys)
			want(t, publish(t, c, many("", quick.Name, 100)...), kinds{acknowledged: 100})
			var others []broker.Message
			for i := range 10 {
				others = append(others, message("", "", fmt.Sprint(i), 1))
				others[i].To.AMQP.RoutingKey = fmt.Sprint("none", i)
			}
			want(t, publish(t, c, others...), kinds{refused: 10})
			if n := stuck.called() + more.called(); n > 0 {
				t.Errorf("the slow queue has answered %d messages", n)
			}
			if n := connections(); n < 2 {
				t.Errorf("%d connections", n)
			}
			resume()
			want(t, stuck.wait(), kinds{acknowledged: 2 * window})
			want(t, more.wait(), kinds{acknowledged: len(keys)})
			until(t, "connections end that are not needed", func() bool { return connections() == 1 })
			want(t, publish(t, c, append(keys, many("", slow, 1)...)...), kinds{acknowledged: len(keys) + 1})
		})
	}
}

// Where the broker takes no more connections, who waits for a channel goes on to wait, and is sent when one is
// free.
func testNoMoreConnections(t *testing.T, r *rig) {
	slow := r.queue(t, nil)
	exchange := slow + ".exchange"
	must(t, r.owner.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil))
	must(t, r.owner.QueueBind(slow, "", exchange, false, nil))
	c := client(t, r.options())
	want(t, publish(t, c, many("", slow, 1)...), kinds{acknowledged: 1})
	limit := func(of string) { r.Eval(t, `rabbit_vhost_limit:set(<<"/">>, [`+of+`], <<"test">>).`) }
	limit(`{<<"max-connections">>, length(rabbit_connection_tracking:list(<<"/">>))}`)
	defer limit("")
	resume := r.suspend(t, slow)
	var keys []broker.Message
	for i := range maxChannels + 10 {
		keys = append(keys, message(exchange, fmt.Sprint(i), fmt.Sprint(i), 1))
	}
	all := start(t.Context(), t, c, keys)
	connections := func(n int) func() bool {
		return func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.links) == n
		}
	}
	until(t, "it tries another connection", connections(2))
	until(t, "that one is refused", connections(1))
	if n := all.called(); n > 0 {
		t.Errorf("%d messages are given up", n)
	}
	resume()
	want(t, all.wait(), kinds{acknowledged: len(keys)})
}
