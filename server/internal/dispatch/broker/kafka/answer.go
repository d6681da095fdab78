package kafka

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// notTaken are the codes of answers that a broker gives before it writes anything: it does not have the
// records. All others leave it open. So REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND come after the
// write; NOT_LEADER_OR_FOLLOWER and KAFKA_STORAGE_ERROR may; nobody knows when UNKNOWN_SERVER_ERROR comes.
var notTaken = codes(kerr.CorruptMessage, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable,
	kerr.MessageTooLarge, kerr.InvalidTopicException, kerr.RecordListTooLarge, kerr.NotEnoughReplicas,
	kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.InvalidTimestamp,
	kerr.UnsupportedForMessageFormat, kerr.PolicyViolation, kerr.InvalidRecord, kerr.UnknownTopicID,
	kerr.InconsistentTopicID)

func codes(errs ...*kerr.Error) map[int16]bool {
	out := map[int16]bool{}
	for _, e := range errs {
		out[e.Code] = true
	}
	return out
}

// correlation is the size of what the answers begin with.
const correlation = 4

// leavesOpen reports whether the answer to a produce request leaves open, for some records, whether the
// broker has them.
func leavesOpen(version int16, answer []byte) bool {
	if len(answer) < correlation {
		return true
	}
	in := kbin.Reader{Src: answer[correlation:]}
	r := kmsg.NewPtrProduceResponse()
	r.SetVersion(version)
	if r.IsFlexible() {
		kmsg.SkipTags(&in)
	}
	if !in.Ok() || r.UnsafeReadFrom(in.Src) != nil {
		return true
	}
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			if code := r.Topics[i].Partitions[j].ErrorCode; code != 0 && !notTaken[code] {
				return true
			}
		}
	}
	return false
}
