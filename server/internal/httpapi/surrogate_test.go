package httpapi

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// TestHalfACharacterIsRefused: by the field that it is in, wherever that is; a whole pair is taken.
func TestHalfACharacterIsRefused(t *testing.T) {
	const whole = `\ud83d\ude00`
	for _, half := range []string{`\ud800`, `\uD83D`, `\uDE00\ud83d`, `\ude00`, `\ud83d\u0041`, `\\\ud83d`,
		`\ud83d\\ude00`, `\ud83d\n`, `\ud83d😀`} {
		for _, c := range []struct {
			m                 proto.Message
			body, field, says string
		}{
			{&pb.Job{}, `{"note":"a@b"}`, "note", "surrogate"},
			{&pb.Job{}, `{"overlap":"@"}`, "overlap", "surrogate"},
			{&pb.Job{}, `{"depends_on":["x", "@"]}`, "depends_on[1]", "surrogate"},
			{&pb.Job{}, `{"metadata":{"a": "@"}}`, "metadata.a", "surrogate"},
			{&pb.Job{}, `{"metadata":{"@":"a"}}`, "metadata", "surrogate"},
			{&pb.Job{}, `{"data":"@","labels":{"a":"@"}}`, "labels.a", "surrogate"},
			{&pb.Job{}, `{"target":{"worker":{"queue":"@"}}}`, "target.worker.queue", "surrogate"},
			{&pb.Job{}, `{"target":{"@":1}}`, "target", "surrogate"},
			{&pb.Job{}, `{"@":1}`, "", "surrogate"},
			{&pb.BatchPutJobsRequest{}, `{"jobs":[{"note":"x"}, {"data":1, "note" : "@"}]}`,
				"jobs[1].note", "surrogate"},
			{&pb.Run{}, `{"response":"@"}`, "response", "surrogate"},
		} {
			_, err := Unmarshal([]byte(strings.ReplaceAll(c.body, "@", half)), proto.Clone(c.m))
			e, ok := errors.AsType[*carillon.Error](err)
			if !ok || e.Kind != carillon.InvalidArgument || e.Field != c.field ||
				!strings.Contains(e.Message, c.says) {
				t.Errorf("%s with %s: %v, want %s", c.body, half, err, c.field)
			}
			_, err = Unmarshal([]byte(strings.ReplaceAll(c.body, "@", whole)), proto.Clone(c.m))
			if err != nil && strings.Contains(err.Error(), c.says) {
				t.Errorf("%s with a pair: %v", c.body, err)
			}
		}
	}
}

// TestHalfACharacterInData: data is its author's, byte for byte.
func TestHalfACharacterInData(t *testing.T) {
	m := &pb.Job{}
	if _, err := Unmarshal([]byte(`{"data":{"a":"\ud800"}}`), m); err != nil ||
		string(m.GetData()) != `{"a":"\ud800"}` {
		t.Errorf("%s, %v", m.GetData(), err)
	}
}

// TestWhatIsTakenIsWhatWasSent: a text is refused, or comes out as it went in: U+FFFD stands for itself
// alone.
func TestWhatIsTakenIsWhatWasSent(t *testing.T) {
	parts := []string{`\ud83d`, `\ude00`, `\\`, `\ufffd`, "\uFFFD", `\n`, `u`, `d83d`, `😀`, `\uD7FF`,
		`\ue000`, `\udfff`, `\"`}
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOf(rapid.SampledFrom(parts)).Draw(t, "parts")
		m := &pb.Job{}
		_, err := Unmarshal([]byte(`{"note":"`+strings.Join(drawn, "")+`"}`), m)
		var plain string
		if fail := json.Unmarshal([]byte(`"`+strings.Join(drawn, "")+`"`), &plain); fail != nil {
			t.Fatal(fail)
		}
		given := 0
		for _, p := range drawn {
			if slices.Contains([]string{`\ufffd`, "\uFFFD"}, p) {
				given++
			}
		}
		broken := strings.Count(plain, string(utf8.RuneError)) > given
		if broken != (err != nil) || !broken && m.GetNote() != plain {
			t.Errorf("%q became %q, %v; want it refused: %v", drawn, m.GetNote(), err, broken)
		}
	})
}
