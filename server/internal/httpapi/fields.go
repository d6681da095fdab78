package httpapi

import (
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// form is how a member of a JSON object is to be read.
type form uint8

const (
	plain   form = iota
	payload      // any JSON, kept byte for byte: data, beside a content type
	text         // bytes given as a string: response
	base64d      // the same bytes in base64: data_base64, response_base64
)

// member is what a name in a JSON object stands for.
type member struct {
	field protoreflect.FieldDescriptor
	form  form
}

// members is what the names in a message's JSON object stand for: each field in snake_case and in camelCase.
type members map[string]member

// membersOf caches members by message.
var membersOf sync.Map // protoreflect.FullName → members

func membersFor(md protoreflect.MessageDescriptor) members {
	if known, ok := membersOf.Load(md.FullName()); ok {
		return known.(members)
	}
	ms := members{}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		name := string(fd.Name())
		if !hasBase64(fd) {
			ms[name], ms[fd.JSONName()] = member{fd, plain}, member{fd, plain}
			continue
		}
		ms[name] = member{fd, rawForm(fd)}
		ms[name+base64Suffix], ms[name+"Base64"] = member{fd, base64d}, member{fd, base64d}
	}
	membersOf.Store(md.FullName(), ms)
	return ms
}

// base64Suffix ends the name under which bytes are written in base64.
const base64Suffix = "_base64"

// hasBase64 reports whether a field of bytes has two names, one for what it holds and one for its base64. The
// proto says so by its json_name.
func hasBase64(fd protoreflect.FieldDescriptor) bool {
	return fd.Kind() == protoreflect.BytesKind && strings.HasSuffix(fd.JSONName(), base64Suffix)
}

// rawForm is how bytes are written when not in base64: a payload, which has a content type beside it, or a
// text.
func rawForm(fd protoreflect.FieldDescriptor) form {
	if fd.Name() == "data" {
		return payload
	}
	return text
}

// words are the names of an enum's values in JSON: "serial" for OVERLAP_SERIAL. The value 0, "unspecified",
// has none.
type words struct {
	name  map[protoreflect.EnumNumber]string
	value map[string]protoreflect.EnumNumber
	list  string // for people
}

// wordsOf caches words by enum.
var wordsOf sync.Map // protoreflect.FullName → *words

func wordsFor(ed protoreflect.EnumDescriptor) *words {
	if known, ok := wordsOf.Load(ed.FullName()); ok {
		return known.(*words)
	}
	w := &words{name: map[protoreflect.EnumNumber]string{}, value: map[string]protoreflect.EnumNumber{}}
	prefix := len(ed.Values().ByNumber(0).Name()) - len("UNSPECIFIED")
	var all []string
	for i := range ed.Values().Len() {
		v := ed.Values().Get(i)
		if v.Number() == 0 {
			continue
		}
		word := strings.ToLower(string(v.Name())[prefix:])
		w.name[v.Number()], w.value[word] = word, v.Number()
		all = append(all, word)
	}
	w.list = strings.Join(all, ", ")
	wordsOf.Store(ed.FullName(), w)
	return w
}
