package wire

import (
	"maps"
	"slices"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// NamespaceToProto is the settings as a message.
func NamespaceToProto(n *carillon.Namespace) *pb.Namespace {
	return &pb.Namespace{Name: n.Name, Strict: n.Strict,
		ConcurrencyLimits: limitsToProto(n.ConcurrencyLimits), Generation: n.Generation,
		Webhooks: toEach(n.Webhooks, webhookToProto), UnservedAfter: durationText(n.UnservedAfter),
		Quotas: quotasToProto(&n.Quotas), RateLimits: ratesToProto(n.RateLimits),
		Used: ifGiven(n.Used, usageToProto)}
}

// NamespacePageToProto is the page as a message.
func NamespacePageToProto(p carillon.NamespacePage) *pb.ListNamespacesResponse {
	return &pb.ListNamespacesResponse{Namespaces: toEach(p.Namespaces, NamespaceToProto),
		NextPageToken: p.NextPageToken}
}

// NamespacePageFromProto is the message as a page.
func NamespacePageFromProto(m *pb.ListNamespacesResponse) (carillon.NamespacePage, error) {
	var f first
	p := carillon.NamespacePage{NextPageToken: m.GetNextPageToken()}
	for _, n := range m.GetNamespaces() {
		p.Namespaces = append(p.Namespaces, f.namespace(n))
	}
	return p, f.err
}

// PutNamespaceToProto is the settings as a request.
func PutNamespaceToProto(n *carillon.Namespace) *pb.PutNamespaceRequest {
	return &pb.PutNamespaceRequest{Name: n.Name, Strict: n.Strict,
		ConcurrencyLimits: limitsToProto(n.ConcurrencyLimits), Generation: n.Generation,
		Webhooks: toEach(n.Webhooks, webhookToProto), UnservedAfter: durationText(n.UnservedAfter),
		Quotas: quotasToProto(&n.Quotas), RateLimits: ratesToProto(n.RateLimits)}
}

func limitsToProto(limits map[string]int) map[string]int32 {
	if len(limits) == 0 {
		return nil
	}
	out := make(map[string]int32, len(limits))
	for key, n := range limits {
		out[text(key)] = clampInt32(n)
	}
	return out
}

// namespaceMessage is a message with the fields of a namespace's settings.
type namespaceMessage interface {
	GetName() string
	GetStrict() bool
	GetConcurrencyLimits() map[string]int32
	GetGeneration() uint64
	GetWebhooks() []*pb.Webhook
	GetUnservedAfter() string
	GetQuotas() *pb.Quotas
	GetRateLimits() map[string]*pb.Rate
}

// NamespaceFromProto is the message, or the request, as settings.
func NamespaceFromProto(m namespaceMessage) (carillon.Namespace, error) {
	var f first
	n := f.namespace(m)
	return n, f.err
}

func (f *first) namespace(m namespaceMessage) carillon.Namespace {
	n := carillon.Namespace{Name: m.GetName(), Strict: m.GetStrict(), Generation: m.GetGeneration(),
		Webhooks:      fromEach(m.GetWebhooks(), webhookFromProto),
		UnservedAfter: f.duration(m.GetUnservedAfter(), "unserved_after"),
		Quotas:        f.quotas(m.GetQuotas())}
	if shown, ok := m.(interface{ GetUsed() *pb.Usage }); ok {
		n.Used = ifGiven(shown.GetUsed(), usageFromProto)
	}
	if len(m.GetConcurrencyLimits()) > 0 {
		n.ConcurrencyLimits = make(map[string]int, len(m.GetConcurrencyLimits()))
	}
	for key, limit := range m.GetConcurrencyLimits() {
		n.ConcurrencyLimits[key] = int(limit)
	}
	if len(m.GetRateLimits()) > 0 {
		n.RateLimits = make(map[string]carillon.Rate, len(m.GetRateLimits()))
	}
	for _, key := range slices.Sorted(maps.Keys(m.GetRateLimits())) {
		n.RateLimits[key] = f.rate(m.GetRateLimits()[key], "rate_limits."+key)
	}
	return n
}

func quotasToProto(q *carillon.Quotas) *pb.Quotas {
	if *q == (carillon.Quotas{}) {
		return nil
	}
	return &pb.Quotas{Jobs: q.Jobs, PayloadBytes: q.PayloadBytes, Puts: rateToProto(q.Puts),
		Runs: rateToProto(q.Runs), ConcurrentRuns: q.ConcurrentRuns}
}

func (f *first) quotas(m *pb.Quotas) carillon.Quotas {
	return carillon.Quotas{Jobs: m.GetJobs(), PayloadBytes: m.GetPayloadBytes(),
		Puts: f.rate(m.GetPuts(), "quotas.puts"), Runs: f.rate(m.GetRuns(), "quotas.runs"),
		ConcurrentRuns: m.GetConcurrentRuns()}
}

func usageToProto(u *carillon.Usage) *pb.Usage {
	return &pb.Usage{Jobs: u.Jobs, PayloadBytes: u.PayloadBytes}
}

func usageFromProto(m *pb.Usage) *carillon.Usage {
	return &carillon.Usage{Jobs: m.GetJobs(), PayloadBytes: m.GetPayloadBytes()}
}

func ratesToProto(rates map[string]carillon.Rate) map[string]*pb.Rate {
	if len(rates) == 0 {
		return nil
	}
	out := make(map[string]*pb.Rate, len(rates))
	for key, r := range rates {
		out[text(key)] = rateToProto(r)
	}
	return out
}

func rateToProto(r carillon.Rate) *pb.Rate {
	if r == (carillon.Rate{}) {
		return nil
	}
	return &pb.Rate{Count: r.Count, Period: durationText(r.Period), Burst: r.Burst}
}

func (f *first) rate(m *pb.Rate, field string) carillon.Rate {
	return carillon.Rate{Count: m.GetCount(), Period: f.duration(m.GetPeriod(), field+".period"),
		Burst: m.GetBurst()}
}

func webhookToProto(w *carillon.Webhook) *pb.Webhook {
	types := make([]string, len(w.Types))
	for i, t := range w.Types {
		types[i] = string(t)
	}
	return &pb.Webhook{Name: w.Name, Url: w.URL, Headers: w.Headers, Types: types, Prefix: w.Prefix,
		Kafka: ifGiven(w.Kafka, kafkaToProto), Amqp: ifGiven(w.AMQP, amqpToProto),
		Nats: ifGiven(w.NATS, natsToProto), Redis: ifGiven(w.Redis, redisToProto)}
}

func webhookFromProto(m *pb.Webhook) carillon.Webhook {
	w := carillon.Webhook{Name: m.GetName(), URL: m.GetUrl(), Headers: m.GetHeaders(), Prefix: m.GetPrefix(),
		Kafka: ifGiven(m.GetKafka(), kafkaFromProto), AMQP: ifGiven(m.GetAmqp(), amqpFromProto),
		NATS: ifGiven(m.GetNats(), natsFromProto), Redis: ifGiven(m.GetRedis(), redisFromProto)}
	for _, t := range m.GetTypes() {
		w.Types = append(w.Types, carillon.EventType(t))
	}
	return w
}
