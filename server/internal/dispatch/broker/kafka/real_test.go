package kafka_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/kafka"
	"github.com/carillonhq/carillon/server/internal/testing/link"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// cluster is a Kafka and a link to it.
type cluster struct {
	*realserver.Kafka

	link   *link.Link
	secure *tls.Config
}

// open is a client without a login, and linked one that comes by the link.
func (r *cluster) open(t testing.TB) *kafka.Client {
	t.Helper()
	return client(t, kafka.Options{Addresses: []string{r.Address()}})
}

func (r *cluster) linked(t testing.TB) *kafka.Client {
	t.Helper()
	return client(t, kafka.Options{Addresses: []string{r.link.Address()}})
}

// TestKafka is all that is tried on a real Kafka, which takes long to start.
func TestKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long to start; the tests on a stand-in take the same ways")
	}
	t.Parallel()
	certificate, key, roots := realserver.Authority(t)
	k := &cluster{Kafka: realserver.NewKafka(t, certificate, key), secure: &tls.Config{RootCAs: roots}}
	l, err := link.Listen(k.LinkedAddress(), link.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	k.link, k.Behind = l, l.Address()
	away := client(t, kafka.Options{Addresses: []string{k.Address()}})
	all(t, publish(t, away, messages("away", "a", 3)...), broker.ErrUnsent)
	k.Up(t)
	for name, test := range map[string]func(*testing.T, *cluster){
		"Order": inOrder, "NoTopic": noTopic, "Recreated": recreated, "TooLarge": tooLarge, "Login": login,
		"Rights": rights, "CutBefore": cutBefore, "CutAfter": cutAfter, "Silent": silent, "Close": closed,
		"ContextEnds": contextEnds,
	} {
		t.Run(name, func(t *testing.T) { test(t, k) })
	}
	t.Run("CameUp", func(t *testing.T) {
		k.Topic(t, "away", 1)
		ms := messages("away", "b", 3)
		allDone(t, publish(t, away, ms...))
		ids(t, k.Address(), "away", idsOf(ms)) // and nothing of what was not sent
	})
	t.Run("Killed", func(t *testing.T) { killed(t, k) })
}

// Messages are acknowledged once and stand in their order, with their headers and their keys.
func inOrder(t *testing.T, k *cluster) {
	k.Topic(t, "order", 1)
	c := k.open(t)
	var ms []broker.Message
	var under []*outcome
	for i := range 20 {
		lot := messages("order", fmt.Sprintf("lot-%02d", i), 100)
		lot[7].To.Kafka.Key = "of the target"
		under, ms = append(under, start(t.Context(), t, c, lot)), append(ms, lot...)
	}
	for _, o := range under {
		allDone(t, o.wait())
	}
	records := contents(t, k.Address(), "order")
	if len(records) != len(ms) {
		t.Fatalf("%d records of %d messages", len(records), len(ms))
	}
	for i, r := range records {
		key := "default/a"
		if i%100 == 7 {
			key = "of the target"
		}
		if id(t, r) != ms[i].ID || string(r.Key) != key || string(r.Value) != "data" ||
			header(t, r, "content-type") != "text/plain" || header(t, r, "carillon-job") != "default/a" {
			t.Fatalf("record %d is %s: key %q, value %q, headers %v; want %s", i, id(t, r), r.Key, r.Value, r.Headers,
				ms[i].ID)
		}
	}
}

// Only what goes to a topic that is not there is refused. Once it is there, it takes messages.
func noTopic(t *testing.T, k *cluster) {
	k.Topic(t, "there", 1)
	c := k.open(t)
	ms := append(messages("not-there", "a", 3), messages("there", "b", 3)...)
	errs := publish(t, c, append(ms, message("no/name", "c", ""))...)
	all(t, errs[:3], broker.ErrRefused)
	allDone(t, errs[3:6])
	all(t, errs[6:], broker.ErrRefused)
	if text := errs[0].Error(); !strings.Contains(text, `topic "not-there" does not exist`) {
		t.Errorf("the reason is %q", text)
	}
	k.Topic(t, "not-there", 1)
	allDone(t, publish(t, c, messages("not-there", "d", 3)...))
}

// A topic that was deleted and made again takes messages.
func recreated(t *testing.T, k *cluster) {
	k.Topic(t, "again", 2)
	c := k.open(t)
	allDone(t, publish(t, c, messages("again", "a", 3)...))
	k.Drop(t, "again")
	k.Topic(t, "again", 1)
	ms := messages("again", "b", 3)
	allDone(t, publish(t, c, ms...))
	ids(t, k.Address(), "again", idsOf(ms))
}

// Of a batch, only the messages that are too large are refused: also where the batch is too large as such.
func tooLarge(t *testing.T, k *cluster) {
	k.Topic(t, "small", 1, "max.message.bytes=2000")
	c := client(t, kafka.Options{Addresses: []string{k.Address()}, MaxMessage: 20_000})
	ms := messages("small", "a", 100)
	var want []string
	for i := range ms {
		// random enough not to be compressed
		size := map[int]int{3: 5_000, 4: 30_000, 50: 5_000, 99: 5_000}[i]
		for n := uint64(i + 1); len(ms[i].Data) < size; n = n*6364136223846793005 + 1442695040888963407 {
			ms[i].Data = fmt.Appendf(ms[i].Data, "%x", n)
		}
		if size == 0 {
			want = append(want, ms[i].ID)
		}
	}
	for i, err := range publish(t, c, ms...) {
		if len(ms[i].Data) > 4 {
			all(t, []error{err}, broker.ErrRefused)
		} else {
			must(t, err)
		}
	}
	ids(t, k.Address(), "small", want)
}

// Who cannot log in has sent nothing.
func login(t *testing.T, k *cluster) {
	k.Topic(t, "login", 1)
	k.Allow(t, realserver.KafkaWriter, "login", kmsg.ACLOperationWrite)
	o := kafka.Options{Addresses: []string{k.SecureAddress()}, TLS: k.secure, User: realserver.KafkaWriter}
	ms := messages("login", "a", 2)
	for i, mechanism := range []string{kafka.ScramSHA256, kafka.Plain} {
		o.Mechanism, o.Password = mechanism, "wrong"
		errs := publish(t, client(t, o), ms...)
		all(t, errs, broker.ErrUnsent)
		if text := strings.ToLower(errs[0].Error()); !strings.Contains(text, "authentication") {
			t.Errorf("the reason is %q", text)
		}
		o.Password = realserver.KafkaPassword
		allDone(t, publish(t, client(t, o), ms[i]))
	}
	later := func() time.Time { return time.Now().Add(24 * time.Hour) }
	for want, secure := range map[string]*tls.Config{"unknown authority": {},
		"match other": {RootCAs: k.secure.RootCAs, ServerName: "other"}, "expired": {RootCAs: k.secure.RootCAs, Time: later},
	} {
		o.TLS = secure
		errs := publish(t, client(t, o), ms...)
		all(t, errs, broker.ErrUnsent)
		if text := errs[0].Error(); !strings.Contains(text, want) {
			t.Errorf("the reason is %q, want %q", text, want)
		}
	}
	ids(t, k.Address(), "login", idsOf(ms))
}

// Who may not write is refused, and only there.
func rights(t *testing.T, k *cluster) {
	k.Topic(t, "mine", 1)
	k.Topic(t, "others", 1)
	k.Allow(t, realserver.KafkaWriter, "mine", kmsg.ACLOperationWrite)
	o := kafka.Options{Addresses: []string{k.SecureAddress()}, TLS: k.secure, User: realserver.KafkaWriter,
		Password: realserver.KafkaPassword, Mechanism: kafka.Plain}
	errs := publish(t, client(t, o), append(messages("mine", "a", 2), messages("others", "b", 2)...)...)
	allDone(t, errs[:2])
	all(t, errs[2:], broker.ErrRefused)
	if text := errs[2].Error(); !strings.Contains(text, `may not write to topic "others"`) {
		t.Errorf("the reason is %q", text)
	}
	o.User = realserver.KafkaStranger
	c := client(t, o)
	all(t, publish(t, c, messages("mine", "c", 2)...), broker.ErrRefused)
	k.Allow(t, realserver.KafkaStranger, "mine", kmsg.ACLOperationRead) // and the topic is no secret anymore
	all(t, publish(t, c, messages("mine", "d", 2)...), broker.ErrRefused)
	k.Allow(t, realserver.KafkaStranger, "mine", kmsg.ACLOperationWrite)
	allDone(t, publish(t, c, messages("mine", "e", 2)...))
	ids(t, k.Address(), "others", nil)
}

// What left and did not arrive is in doubt when its context ends; meanwhile the topic takes nothing. When the
// broker is there again, what was in doubt arrives once, and what comes after it, too.
func cutBefore(t *testing.T, k *cluster) {
	k.Topic(t, "before", 1)
	c := k.linked(t)
	first := messages("before", "a", 1)
	allDone(t, publish(t, c, first...))
	k.link.CutWay(link.There, link.Silent)
	ctx, cancel := context.WithCancel(t.Context())
	doubtful := messages("before", "b", 3)
	begun := c.Begun()
	under := start(ctx, t, c, doubtful)
	for c.Begun() == begun {
		runtime.Gosched()
	}
	all(t, publish(t, c, messages("before", "c", 3)...), broker.ErrUnsent) // after a while
	all(t, publish(t, c, messages("before", "d", 3)...), broker.ErrUnsent) // at once
	cancel()
	inDoubt(t, under.wait())
	k.link.Cut(link.Broken)
	k.link.Heal()
	last := messages("before", "e", 1)
	untilTaken(t, c, last[0])
	ids(t, k.Address(), "before", idsOf(append(append(first, doubtful...), last...)))
}

// untilTaken publishes a message until it was sent.
func untilTaken(t *testing.T, c *kafka.Client, m broker.Message) {
	t.Helper()
	end := time.Now().Add(patience)
	for {
		err := publish(t, c, m)[0]
		if err == nil {
			return
		}
		if !errors.Is(err, broker.ErrUnsent) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// What the broker took, and whose answer was lost, is acknowledged when it was sent again, and is there once.
func cutAfter(t *testing.T, k *cluster) {
	k.Topic(t, "after", 1)
	c := k.linked(t)
	ms := messages("after", "a", 4)
	allDone(t, publish(t, c, ms[0]))
	k.link.CutWay(link.Back, link.Silent)
	under := start(t.Context(), t, c, ms[1:3])
	for len(contents(t, k.Address(), "after")) < 3 { // with what this writes itself left out
		continue
	}
	k.link.CutWay(link.Back, link.Broken)
	k.link.Heal()
	allDone(t, under.wait())
	allDone(t, publish(t, c, ms[3]))
	ids(t, k.Address(), "after", idsOf(ms))
}

// A network that is silent from the start has taken nothing.
func silent(t *testing.T, k *cluster) {
	k.Topic(t, "silent", 1)
	k.link.Cut(link.Silent)
	c := k.linked(t)
	all(t, publish(t, c, messages("silent", "a", 3)...), broker.ErrUnsent)
	k.link.Heal()
	ms := messages("silent", "b", 3)
	allDone(t, publish(t, c, ms...))
	ids(t, k.Address(), "silent", idsOf(ms))
}

// Close ends everything: what was sent may be there, what waits is not, and nothing is taken anymore.
func closed(t *testing.T, k *cluster) {
	k.Topic(t, "close", 1)
	c := k.linked(t)
	allDone(t, publish(t, c, messages("close", "a", 1)...))
	k.link.CutWay(link.Back, link.Silent)
	under := start(t.Context(), t, c, messages("close", "b", 2))
	for len(contents(t, k.Address(), "close")) < 3 {
		continue
	}
	behind := start(t.Context(), t, c, messages("close", "c", 2))
	must(t, c.Close())
	inDoubt(t, under.wait())
	all(t, behind.wait(), broker.ErrUnsent)
	all(t, publish(t, c, messages("close", "d", 2)...), broker.ErrUnsent)
	if err := c.Close(); err == nil {
		t.Error("it was closed twice")
	}
	k.link.Cut(link.Broken)
	k.link.Heal()
	ids(t, k.Address(), "close", []string{"a-0000", "b-0000", "b-0001"})
}

// Nothing is sent for a context that has ended.
func contextEnds(t *testing.T, k *cluster) {
	k.Topic(t, "ends", 1)
	k.link.Cut(link.Silent)
	c := k.linked(t)
	ctx, cancel := context.WithCancel(t.Context())
	under := start(ctx, t, c, messages("ends", "a", 2))
	cancel()
	all(t, under.wait(), broker.ErrUnsent)
	k.link.Heal()
	ms := messages("ends", "b", 2)
	for i := range ms {
		untilTaken(t, c, ms[i])
	}
	ids(t, k.Address(), "ends", idsOf(ms))
}

// killed kills the broker under 500 messages a second. The ledger has what was said of each.
func killed(t *testing.T, k *cluster) {
	k.Topic(t, "killed", 3)
	c := k.open(t)
	var under []*outcome
	var lots [][]broker.Message
	publishLots := func(until func() bool) {
		every := time.NewTicker(20 * time.Millisecond)
		defer every.Stop()
		for !until() {
			<-every.C
			lot := messages("killed", fmt.Sprintf("lot-%04d", len(lots)), 10)
			for i := range lot {
				lot[i].To.Kafka.Key = lot[i].ID
			}
			under, lots = append(under, start(t.Context(), t, c, lot)), append(lots, lot)
		}
	}
	const before, after = 30, 30
	publishLots(func() bool { return len(lots) == before })
	up := make(chan struct{})
	k.Crash(t)
	go func() {
		defer close(up)
		k.Up(t)
	}()
	publishLots(func() bool {
		select {
		case <-up:
			return true
		default:
			return false
		}
	})
	came, latest := len(lots), time.Now().Add(patience)
	publishLots(func() bool { // until it sends again
		if time.Now().After(latest) {
			t.Fatal("it takes nothing after the broker came back")
		}
		return slices.ContainsFunc(under[came:], (*outcome).ok)
	})
	end := len(lots) + after
	publishLots(func() bool { return len(lots) >= end })
	counts := map[string]int{}
	said := map[string]string{}
	for i, o := range under {
		for j, err := range o.wait() {
			what := "doubt"
			switch {
			case err == nil:
				what = "done"
			case errors.Is(err, broker.ErrUnsent):
				what = "unsent"
			case errors.Is(err, broker.ErrRefused):
				t.Errorf("%s: %v", lots[i][j].ID, err)
			}
			said[lots[i][j].ID] = what
			counts[what]++
		}
	}
	t.Log(counts)
	allDone(t, publish(t, c, message("killed", "last", "")))
	there := map[string]int{}
	for _, r := range contents(t, k.Address(), "killed") {
		there[id(t, r)]++
	}
	for run, what := range said {
		switch n := there[run]; {
		case n > 1:
			t.Errorf("%s is there %d times", run, n)
		case what == "done" && n == 0:
			t.Errorf("%s was acknowledged and is lost", run)
		case what == "unsent" && n > 0:
			t.Errorf("%s was said not to be sent and is there", run)
		}
	}
	if counts["done"] < 10*(before+after)/2 || counts["unsent"] == 0 {
		t.Errorf("of %d messages %v: too few for a test", len(said), counts)
	}
}
