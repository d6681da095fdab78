package codec

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// Cipher encrypts parts of records, and decrypts them. Both take what a part is bound to, which the result
// does not hold: with anything else it cannot be decrypted. What Encrypt returns begins with a byte 1 and the
// id of the key, big endian. It is safe for concurrent use.
type Cipher interface {
	Encrypt(plain, bound []byte) ([]byte, error)
	Decrypt(sealed, bound []byte) ([]byte, error)
}

// What a part is: beside the namespace and the name of its job, it is bound to that.
const (
	partSpec      = "carillon spec"
	partAttempts  = "carillon attempts"
	partRun       = "carillon run"
	partEvent     = "carillon event"
	partNamespace = "carillon namespace"
)

// bound says what a part is bound to. No name has a zero.
func bound(part string, of carillon.Key) []byte {
	b := make([]byte, 0, len(part)+len(of.Namespace)+len(of.Name)+2)
	b = append(append(b, part...), 0)
	b = append(append(b, of.Namespace...), 0)
	return append(b, of.Name...)
}

// Numbers of the fields that hold a whole message, encrypted.
const (
	specSealed      = 29
	namespaceSealed = 8
)

// sealedError is the error of a part that is encrypted, and was not decrypted.
type sealedError struct{ key uint32 }

func (e sealedError) Error() string {
	return fmt.Sprintf("it is encrypted with the key %08x, which is not among the keys here or does not fit it", e.key)
}

func (sealedError) Is(err error) bool { return err == store.ErrSealed }

// SealedBy returns the id of the key of what a [Cipher] has encrypted; 0: it is nothing of the kind.
func SealedBy(sealed []byte) uint32 {
	const head = 5
	if len(sealed) <= head || sealed[0] != 1 {
		return 0
	}
	return binary.BigEndian.Uint32(sealed[1:])
}

// refuseSealed fails if the field is what is next to read.
func refuseSealed(c *coder, field int) {
	if !c.writing && c.next(field, wireBytes) {
		c.fail(sealedError{SealedBy(c.body())})
	}
}

// sealedIn returns the bytes of a field of a message; nil if it has none.
func sealedIn(b []byte, field int) (sealed []byte) {
	c := coder{b: b}
	for at := message(0); c.within(&at); {
		c.bytes(field, &sealed)
	}
	return sealed
}

// sealWhole appends the message, encrypted, as a field to what stands beside it.
func sealWhole(c Cipher, b, to, beside []byte, field int) ([]byte, error) {
	sealed, err := c.Encrypt(b, to)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	const tagAndLength = 8
	out := coder{b: slices.Grow(beside, len(sealed)+tagAndLength), writing: true}
	write(&out, field, sealed)
	return out.b, nil
}

// openWhole returns the message that sealWhole was given. One that is not encrypted, or cannot be decrypted,
// stays as it is.
func openWhole(c Cipher, b []byte, field int, part string, of carillon.Key) []byte {
	sealed := sealedIn(b, field)
	if sealed == nil {
		return b
	}
	plain, err := c.Decrypt(sealed, bound(part, of))
	switch {
	case err != nil:
		return b
	case plain == nil:
		return []byte{}
	}
	return plain
}

// SealSpec encrypts the spec of a job. Its labels stand beside it, too, since stores look for them. Nil stays
// nil, and a spec that is encrypted already stays as it is.
func SealSpec(c Cipher, of carillon.Key, spec []byte) ([]byte, error) {
	if spec == nil || SpecSealedBy(spec) != 0 {
		return spec, nil
	}
	beside := coder{writing: true}
	if labels := SpecLabels(spec); labels != nil {
		beside.stringMap(specLabels, &labels)
	}
	return sealWhole(c, spec, bound(partSpec, of), beside.b, specSealed)
}

// OpenSpec decrypts the spec of a job. One that cannot be decrypted stays as it is: [DecodeSpec] refuses it,
// by an error that wraps [store.ErrSealed].
func OpenSpec(c Cipher, of carillon.Key, spec []byte) []byte {
	return openWhole(c, spec, specSealed, partSpec, of)
}

// opened is an error, by [store.ErrSealed], if a field of a message holds it encrypted still.
func opened(b []byte, field int) error {
	if sealed := sealedIn(b, field); sealed != nil {
		return sealedError{SealedBy(sealed)}
	}
	return nil
}

// SpecOpened is an error if a spec is encrypted, also by nothing that can be a key's.
func SpecOpened(spec []byte) error { return opened(spec, specSealed) }

// SpecSealedBy returns the id of the key that a spec is encrypted with; 0: it is not encrypted.
func SpecSealedBy(spec []byte) uint32 { return SealedBy(sealedIn(spec, specSealed)) }

// SealNamespace encrypts what [EncodeNamespace] has returned.
func SealNamespace(c Cipher, name string, b []byte) ([]byte, error) {
	if NamespaceSealedBy(b) != 0 {
		return b, nil
	}
	return sealWhole(c, b, bound(partNamespace, carillon.Key{Namespace: name}), nil, namespaceSealed)
}

// OpenNamespace decrypts what [SealNamespace] has returned, as [OpenSpec] does with a spec.
func OpenNamespace(c Cipher, name string, b []byte) []byte {
	return openWhole(c, b, namespaceSealed, partNamespace, carillon.Key{Namespace: name})
}

// NamespaceSealedBy is [SpecSealedBy] for the settings of a namespace.
func NamespaceSealedBy(b []byte) uint32 { return SealedBy(sealedIn(b, namespaceSealed)) }

// NamespaceOpened is [SpecOpened] for the settings of a namespace.
func NamespaceOpened(b []byte) error { return opened(b, namespaceSealed) }

// texts are what is encrypted of a record that is readable otherwise.
type texts struct {
	Errors   []string // messages of attempts, in their order
	Response []byte
	Text     string
}

func sealedTexts(c *coder, t *texts) {
	for at := message(0); c.within(&at); {
		c.strings(1, &t.Errors)
		c.bytes(2, &t.Response)
		c.string(3, &t.Text)
	}
}

// seal encrypts the texts; nil if there are none.
func (t *texts) seal(c Cipher, part string, of carillon.Key) ([]byte, error) {
	if t.Text == "" && len(t.Response) == 0 && strings.Join(t.Errors, "") == "" {
		return nil, nil
	}
	w := coder{writing: true}
	sealedTexts(&w, t)
	sealed, err := c.Encrypt(w.b, bound(part, of))
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return sealed, nil
}

// open decrypts texts.
func open(c Cipher, part string, of carillon.Key, sealed []byte) (t texts, err error) {
	plain, err := c.Decrypt(sealed, bound(part, of))
	if err == nil {
		r := coder{b: plain}
		sealedTexts(&r, &t)
		err = r.err
	}
	if err != nil {
		return texts{}, sealedError{SealedBy(sealed)}
	}
	return t, nil
}

// takeMessages takes the messages out of the errors of attempts; what others hold of these stays as it is.
func takeMessages(errors *[]carillon.AttemptError) []string {
	if len(*errors) == 0 {
		return nil
	}
	out, bare := make([]string, len(*errors)), slices.Clone(*errors)
	for i := range bare {
		out[i], bare[i].Message = bare[i].Message, ""
	}
	*errors = bare
	return out
}

// give puts the messages of attempts back.
func (t *texts) give(errors *[]carillon.AttemptError) {
	whole := slices.Clone(*errors)
	for i := range whole {
		if i < len(t.Errors) {
			whole[i].Message = t.Errors[i]
		}
	}
	*errors = whole
}

// sealedPrefix begins, in memory, a message that is encrypted: a field of its own would make each state
// larger. No text begins so. One that did would be taken for one that cannot be decrypted.
const sealedPrefix = "\xff\xfesealed\x00"

// openMessage is a message that is not encrypted, and sealedMessage one that is, which has another field.
func openMessage(c *coder, field int, v *string) {
	if !c.writing || !strings.HasPrefix(*v, sealedPrefix) {
		c.string(field, v)
	}
}

func sealedMessage(c *coder, field int, v *string) {
	switch sealed, is := strings.CutPrefix(*v, sealedPrefix); {
	case c.writing && is:
		write(c, field, sealed)
	case !c.writing && c.next(field, wireBytes):
		*v = sealedPrefix + string(c.body())
	}
}

// StateSealedBy returns the id of the key that the messages of a state are encrypted with; 0: they are not.
func StateSealedBy(s *store.State) uint32 {
	sealed, ok := strings.CutPrefix(s.Run.Message, sealedPrefix)
	if !ok {
		return 0
	}
	return SealedBy([]byte(sealed))
}

// SealState encrypts the messages of the unfinished run of a state. It changes nothing that s refers to.
func SealState(c Cipher, of carillon.Key, s *store.State) error {
	if strings.HasPrefix(s.Run.Message, sealedPrefix) {
		return nil
	}
	errors := s.Run.Errors
	t := texts{Errors: takeMessages(&errors), Text: s.Run.Message}
	sealed, err := t.seal(c, partAttempts, of)
	if err == nil && sealed != nil {
		s.Run.Errors, s.Run.Message = errors, sealedPrefix+string(sealed)
	}
	return err
}

// OpenState decrypts what [SealState] has encrypted. After an error, which wraps [store.ErrSealed], the state
// is as it was.
func OpenState(c Cipher, of carillon.Key, s *store.State) error {
	sealed, ok := strings.CutPrefix(s.Run.Message, sealedPrefix)
	if !ok {
		return nil
	}
	t, err := open(c, partAttempts, of, []byte(sealed))
	if err == nil {
		t.give(&s.Run.Errors)
		s.Run.Message = t.Text
	}
	return err
}

// StateOpened is an error, which wraps [store.ErrSealed], if the messages of a state are encrypted.
func StateOpened(s *store.State) error {
	if sealed, ok := strings.CutPrefix(s.Run.Message, sealedPrefix); ok {
		return sealedError{SealedBy([]byte(sealed))}
	}
	return nil
}

// ExplainState puts, in place of messages that are encrypted, that they are. They are lost if the state is
// written.
func ExplainState(s *store.State) {
	if err := StateOpened(s); err != nil {
		s.Run.Message = err.Error()
	}
}

// SealRun encrypts the result of a run, the reason of its end, the messages of its attempts and, apart from
// these, its spec. It changes nothing that r refers to.
func SealRun(c Cipher, r *store.RunRecord) (err error) {
	if r.Spec, err = SealSpec(c, r.Key, r.Spec); err != nil || r.Sealed {
		return err
	}
	errors := r.Errors
	t := texts{Errors: takeMessages(&errors), Response: r.Response, Text: r.Reason}
	sealed, err := t.seal(c, partRun, r.Key)
	if err == nil && sealed != nil {
		r.Errors, r.Response, r.Reason, r.Sealed = errors, sealed, "", true
	}
	return err
}

// OpenRun decrypts what [SealRun] has encrypted. After an error, which wraps [store.ErrSealed], the texts are
// as they were; a spec that cannot be decrypted is as [OpenSpec] has it.
func OpenRun(c Cipher, r *store.RunRecord) error {
	if r.Spec != nil {
		r.Spec = OpenSpec(c, r.Key, r.Spec)
	}
	if !r.Sealed {
		return nil
	}
	t, err := open(c, partRun, r.Key, r.Response)
	if err == nil {
		t.give(&r.Errors)
		r.Response, r.Reason, r.Sealed = t.Response, t.Text, false
	}
	return err
}

// RunOpened is [StateOpened] for the texts of a run.
func RunOpened(r *store.RunRecord) error {
	if r.Sealed {
		return sealedError{SealedBy(r.Response)}
	}
	return nil
}

// ExplainRun is [ExplainState] for the texts of a run.
func ExplainRun(r *store.RunRecord) {
	if err := RunOpened(r); err != nil {
		r.Response, r.Reason, r.Sealed = nil, err.Error(), false
	}
}

// SealEvents encrypts the errors and reasons of events, as [AppendEvents] has written them, and returns the
// id of the key; 0: there are none.
func SealEvents(c Cipher, b []byte) (out []byte, key uint32, err error) {
	list, err := DecodeEvents(b)
	if err != nil {
		return nil, 0, err
	}
	for i := range list.List {
		e := &list.List[i]
		if e.Sealed {
			continue
		}
		t := texts{Response: []byte(e.Error), Text: e.Reason}
		sealed, err := t.seal(c, partEvent, e.Key)
		if err != nil {
			return nil, 0, err
		}
		if sealed != nil {
			e.Error, e.Reason, e.Sealed, key = string(sealed), "", true, SealedBy(sealed)
		}
	}
	if key == 0 {
		return b, 0, nil
	}
	return AppendEvents(nil, &list), key, nil
}

// OpenEvents decrypts what [SealEvents] has encrypted. What cannot be decrypted stays as it is; the error is
// of the first such event, and wraps [store.ErrSealed], or says that b is damaged.
func OpenEvents(c Cipher, b []byte) ([]byte, error) {
	var first error
	out, err := eachSealed(b, func(e *store.Event) {
		t, err := open(c, partEvent, e.Key, []byte(e.Error))
		if err == nil {
			e.Error, e.Reason, e.Sealed = string(t.Response), t.Text, false
		} else if first == nil {
			first = err
		}
	})
	if err == nil {
		err = first
	}
	return out, err
}

// EventsOpened is [StateOpened] for events.
func EventsOpened(b []byte) (err error) {
	_, damaged := eachSealed(b, func(e *store.Event) { err = sealedError{SealedBy([]byte(e.Error))} })
	if damaged != nil {
		return damaged
	}
	return err
}

// ExplainEvents is [ExplainState] for events. What is damaged stays as it is.
func ExplainEvents(b []byte) []byte {
	out, err := eachSealed(b, func(e *store.Event) {
		e.Error, e.Reason, e.Sealed = "", sealedError{SealedBy([]byte(e.Error))}.Error(), false
	})
	if err != nil {
		return b
	}
	return out
}

// eachSealed calls f with the events that are encrypted, and returns all of them as f leaves them. What is
// damaged is returned as it is.
func eachSealed(b []byte, f func(e *store.Event)) ([]byte, error) {
	list, err := DecodeEvents(b)
	if err != nil {
		return b, err
	}
	some := false
	for i := range list.List {
		if e := &list.List[i]; e.Sealed {
			some = true
			f(e)
		}
	}
	if !some {
		return b, nil
	}
	return AppendEvents(nil, &list), nil
}
