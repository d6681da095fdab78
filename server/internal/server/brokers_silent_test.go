package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/amqp"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// amqpClients are the clients of a node that knows RabbitMQ alone.
var amqpClients = map[string]broker.New{"amqp": func(s broker.Settings) (broker.Client, error) {
	return amqp.New(amqp.Options{Addresses: s.Addresses, Username: s.User, Password: s.Password})
}}

// TestAQueueThatAcknowledgesNothing, as one of RabbitMQ without a majority does, is no wave of failures: of many
// runs with the default policy those fail that it had, and one after each pause. The others say why they
// wait, another queue of the broker goes on, and all succeed when it acknowledges again.
func TestAQueueThatAcknowledgesNothing(t *testing.T) {
	const most, tries, jobs = 8, 2, 60
	r := realserver.StartRabbitMQ(t)
	conn, err := amqp091.Dial("amqp://guest:guest@" + r.Address() + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hung", "other"} {
		args := amqp091.Table{"x-queue-type": "quorum"}
		if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	password := brokersFile(t, "guest")
	file := brokersFile(t, fmt.Sprintf("brokers:\n  b: {kind: amqp, addresses: ['%s'], user: guest, "+
		"password_file: %s, in_flight: %d}\n", r.Address(), password, most))
	s := serve(t, server.Config{Store: "memory:", Partitions: 4,
		Targets: server.Targets{Brokers: server.Brokers{File: file, Clients: amqpClients}}})
	c := dial(t, s)
	put := func(name, queue string, timeout time.Duration) {
		t.Helper()
		job := carillon.Job{Name: name, Timeout: timeout,
			Target: carillon.Target{AMQP: &carillon.AMQPTarget{Broker: "b", RoutingKey: queue}}}
		if _, err := c.PutJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	call := func(what string) {
		t.Helper()
		r.Eval(t, fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"hung">>)),
			{Name, _} = amqqueue:get_pid(Q), sys:%s(Name).`, what))
	}
	put("before", "hung", 0)
	finished(t, c, 1)
	call("suspend")
	for i := range jobs {
		put(fmt.Sprint("hung/", i), "hung", 2*time.Second)
	}
	failures, why := 0, ""
	eventually(t, "some have tried whether it is back", func() bool {
		failures, why = failedAttempts(t, c, jobs)
		return failures >= most+tries && why != ""
	})
	if !strings.Contains(why, "no acknowledgement within 2s") {
		t.Errorf("they wait: %s", why)
	}
	put("meanwhile", "other", 0)
	if run := finished(t, c, 2)["meanwhile"]; run.Status != carillon.RunSucceeded || run.Attempt != 1 {
		t.Errorf("of the other queue: %v after %d attempts: %v", run.Status, run.Attempt, run.Errors)
	}
	call("resume")
	finished(t, c, 3) // after the pause that it is in
	failures = 0
	for name, run := range finished(t, c, jobs+2) {
		failures += run.Attempt - 1
		if run.Status != carillon.RunSucceeded {
			t.Errorf("%s: %v after %d attempts: %v", name, run.Status, run.Attempt, run.Errors)
		}
	}
	if failures > jobs/2 {
		t.Errorf("%d attempts of %d runs failed", failures, jobs)
	}
}

// failedAttempts is how many attempts of the jobs for the queue that is hung have failed, and why one of those
// waits that have had none.
func failedAttempts(t *testing.T, c carillon.Jobs, jobs int) (n int, why string) {
	t.Helper()
	for i := range jobs {
		j, err := c.GetJob(t.Context(), key(fmt.Sprint("hung/", i)))
		if err != nil {
			t.Fatal(err)
		}
		n += int(j.Status.Counters.Failed)
		h := j.Status.Hold
		if h != nil && j.Status.Counters.Fired == 0 && (h.Code == carillon.HoldBackoff || h.Code == carillon.HoldNoCredit) {
			why = h.Text
		}
	}
	return n, why
}
