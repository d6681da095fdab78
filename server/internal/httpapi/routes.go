package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// route leads from one method and path to one call.
type route struct {
	method   string // HTTP's
	path     string // as in the contract
	segments []segment
	verb     string // what follows ":" at the end; "" = none
	body     string // the field that the body is, "*" = the whole message, "" = no body
	call     *grpc.MethodDesc
	stream   *grpc.StreamDesc // instead of call
	raw      rawHandler       // instead of call: its bodies are no messages
	full     string           // name of the stream with its service
	service  any              // whose call it is
}

// segment is one part of a path: a word, a field (a name in it), or a field that takes all that is left.
type segment struct {
	word  string
	field string
	rest  bool
}

// routesOf reads the routes of a service from its google.api.http annotations in the file.
func routesOf(file protoreflect.FileDescriptor, desc *grpc.ServiceDesc, service any) []route {
	methods := file.Services().ByName(protoreflect.FullName(desc.ServiceName).Name()).Methods()
	var routes []route
	add := func(name string, of route) {
		md := methods.ByName(protoreflect.Name(name))
		rule, ok := proto.GetExtension(md.Options(), annotations.E_Http).(*annotations.HttpRule)
		if !ok || rule == nil {
			return
		}
		for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
			rt := newRoute(r)
			rt.call, rt.stream, rt.full, rt.service = of.call, of.stream, of.full, service
			routes = append(routes, rt)
		}
	}
	for i := range desc.Methods {
		add(desc.Methods[i].MethodName, route{call: &desc.Methods[i]})
	}
	for i := range desc.Streams {
		add(desc.Streams[i].StreamName, route{stream: &desc.Streams[i],
			full: "/" + desc.ServiceName + "/" + desc.Streams[i].StreamName})
	}
	return routes
}

func newRoute(r *annotations.HttpRule) route {
	rt := route{body: r.GetBody()}
	m := r.ProtoReflect()
	pattern := m.WhichOneof(m.Descriptor().Oneofs().ByName("pattern")) // get, put, …: a path each
	if pattern == nil || pattern.Kind() != protoreflect.StringKind {
		panic(fmt.Sprintf("httpapi: unknown annotation %v", r))
	}
	rt.method = strings.ToUpper(string(pattern.Name()))
	path := m.Get(pattern).String()
	rt.path = path
	path, rt.verb = cutVerb(path)
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		field, isField := strings.CutPrefix(part, "{")
		if !isField {
			rt.segments = append(rt.segments, segment{word: part})
			continue
		}
		field, rest := strings.CutSuffix(strings.TrimSuffix(field, "}"), "=**")
		rt.segments = append(rt.segments, segment{field: field, rest: rest})
	}
	return rt
}

// cutVerb cuts a path at the ":" in its last part. One at the very end is part of the name, so that no name
// is taken for another.
func cutVerb(path string) (rest, verb string) {
	i := strings.LastIndexByte(path, ':')
	if i < strings.LastIndexByte(path, '/') || i == len(path)-1 {
		return path, ""
	}
	return path[:i], path[i+1:]
}

// param is a field that the path gives.
type param struct{ field, value string }

// found is where a request leads.
type found struct {
	route  *route   // nil if there is none
	params []param  // of the route
	allow  []string // methods that the path has, if it has not the request's
}

// find looks a request up; path is as the caller escaped it. A ":" that is followed by no known verb belongs
// to the name.
func find(routes []route, method, path string) *found {
	bare, verb := cutVerb(path)
	f := lookUp(routes, method, bare, verb)
	if verb != "" && f.route == nil && len(f.allow) == 0 && method != "POST" {
		f = lookUp(routes, method, path, "")
	}
	return f
}

func lookUp(routes []route, method, path, verb string) *found {
	f := new(found)
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i := range routes {
		rt := &routes[i]
		if rt.verb != verb {
			continue
		}
		params, ok := rt.match(parts)
		switch {
		case !ok:
		case rt.method == method:
			return &found{route: rt, params: params}
		case !slices.Contains(f.allow, rt.method):
			f.allow = append(f.allow, rt.method)
		}
	}
	return f
}

func (rt *route) match(parts []string) ([]param, bool) {
	var params []param
	for i, s := range rt.segments {
		if i >= len(parts) {
			return nil, false
		}
		value := parts[i]
		if s.rest {
			value = strings.Join(parts[i:], "/")
		}
		plain, err := url.PathUnescape(value)
		if err != nil || plain == "" || s.word != "" && plain != s.word {
			return nil, false
		}
		if s.field != "" {
			params = append(params, param{s.field, plain})
		}
		if s.rest {
			return params, true
		}
	}
	return params, len(parts) == len(rt.segments)
}
