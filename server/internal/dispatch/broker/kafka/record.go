package kafka

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// Names of headers, as the attempt has them and as the binding for Kafka wants them.
const (
	contentType   = "content-type"
	neutralPrefix = "ce-"
	bindingPrefix = "ce_"
	jobHeader     = "carillon-job"
)

// record is a message as Kafka gets it.
func record(m *broker.Message) *kgo.Record {
	key := m.To.Kafka.Key
	headers := make([]kgo.RecordHeader, 0, len(m.Headers)+1)
	if m.ContentType != "" {
		headers = append(headers, kgo.RecordHeader{Key: contentType, Value: []byte(m.ContentType)})
	}
	job := ""
	for _, h := range m.Headers {
		if strings.EqualFold(h.Name, jobHeader) {
			job = h.Value
		}
		name := h.Name
		if attribute, is := strings.CutPrefix(name, neutralPrefix); is {
			name = bindingPrefix + attribute
		}
		headers = append(headers, kgo.RecordHeader{Key: name, Value: []byte(h.Value)})
	}
	for _, other := range []string{job, m.ID} {
		if key == "" {
			key = other
		}
	}
	return &kgo.Record{Topic: m.To.Kafka.Topic, Key: []byte(key), Headers: headers, Value: m.Data}
}

// ofBatch reports whether an error may be about another record of the batch, or about the batch as such.
// The broker has taken none of it.
func ofBatch(err error) bool {
	for _, e := range []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord,
		kerr.InvalidTimestamp, kerr.CorruptMessage} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// refusals are the answers that are about the topic or the record, and would be the same the next time.
var refusals = []struct {
	is     error
	reason string
}{
	{kerr.UnknownTopicOrPartition, "topic %q does not exist"},
	{kerr.InvalidTopicException, "%q is not the name of a topic"},
	{kerr.TopicAuthorizationFailed, "the user may not write to topic %q"},
	{kerr.ClusterAuthorizationFailed, "the user may write to no topic, not to %q either"},
	{kerr.MessageTooLarge, "it is larger than topic %q takes, or than this client may send"},
	{kerr.RecordListTooLarge, "it is larger than a segment of topic %q"},
	{kerr.InvalidRecord, "topic %q does not take such a record"},
	{kerr.InvalidTimestamp, "topic %q does not take its time: the clocks differ"},
	{kerr.UnsupportedForMessageFormat, "the format of topic %q has no such records"},
	{kerr.PolicyViolation, "a policy of topic %q is against it"},
}

// refusal is the reason if an error is one of the refusals; "" if not. A topic that has taken something
// before exists: a broker that starts does not know it for a moment.
func (l *lane) refusal(err error) string {
	if errors.Is(err, kerr.UnknownTopicOrPartition) && l.client.wrote(l.topic) {
		return ""
	}
	for _, r := range refusals {
		if errors.Is(err, r.is) {
			return r.reason
		}
	}
	return ""
}

// ofLogin reports whether an error is about the login: it comes before anything else on a connection.
func ofLogin(err error) bool {
	return errors.Is(err, kerr.SaslAuthenticationFailed) || errors.Is(err, kerr.UnsupportedSaslMechanism) ||
		errors.Is(err, kerr.IllegalSaslState)
}

// explain says what franz-go's error means. In doubt, a produce request of the time had no answer, or one
// that leaves open whether the broker has it: without doubt the broker has nothing.
func (l *lane) explain(err error, doubt bool) error {
	if err == nil {
		return nil
	}
	reason := l.refusal(err)
	if reason == "" && !errors.Is(err, kgo.ErrClientClosed) {
		l.client.doubted()
	}
	switch {
	case doubt:
		return fmt.Errorf("the broker may have it: %w", err)
	case reason != "":
		return fmt.Errorf("%w: "+reason+": %w", broker.ErrRefused, l.topic, err)
	case ofLogin(err):
		return fmt.Errorf("%w: the login fails: %w", broker.ErrUnsent, err)
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("%w: topic %q, which took records before, is not known at present: the broker "+
			"starts, or the topic was deleted: %w", broker.ErrUnsent, l.topic, err)
	case errors.Is(err, kgo.ErrRecordTimeout):
		return fmt.Errorf("%w: no broker took it for topic %q within %v: the leader is away, or too few replicas are "+
			"in sync: %w", broker.ErrUnsent, l.topic, l.client.options.SendWithin, err)
	}
	return fmt.Errorf("%w to topic %q: %w", broker.ErrUnsent, l.topic, err)
}
