package outbox

import (
	_ "embed" // the script
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// Version is that of the tables and functions. A script of it replaces older ones.
const Version = 1

//go:embed schema.sql
var script string

// Script returns the SQL that makes the tables and functions, for a tool that applies migrations.
func Script() string {
	return strings.NewReplacer("{{VERSION}}", strconv.Itoa(Version), "{{FIELDS}}", fields(), "{{STRINGS}}",
		strings.Join(stringFields(), ","), "{{RULES}}", plainRules()).Replace(script)
}

// stringFields returns the members of a job that are strings, by their first names.
func stringFields() []string {
	all := map[string]map[string]field{}
	describe(all, (*pb.Job)(nil).ProtoReflect().Descriptor())
	names := []string{"data_base64"}
	for name, f := range all["Job"] {
		if f.Type == "string" && f.Name == name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// field is what the script knows of a member of an object.
type field struct {
	// string, bool, double, integer, natural, enum, strings, map, any, or the name of an object's type
	Type  string   `json:"t"`
	Name  string   `json:"f"`           // of the field, which has two names
	OneOf bool     `json:"o,omitempty"` // only one of these may be given
	Words []string `json:"w,omitempty"` // of an enum
	Rules *rules   `json:"r,omitempty"`
}

// fields returns what a job in JSON may hold, in JSON: the members of each object by the name of its type.
func fields() string {
	all := map[string]map[string]field{}
	describe(all, (*pb.Job)(nil).ProtoReflect().Descriptor())
	types, schemas := map[string]any{}, readSchemas()
	for name, members := range all {
		said := schemas[name+"Input"]
		for spelling, f := range members {
			if f.Name != "data" {
				f.Rules = said.rulesOf(name, f.Name)
			}
			members[spelling] = f
		}
		types[name] = members
		if name != "Job" && len(said.Required) > 0 { // a job's target is checked on its own
			types["needed of "+name] = said.Required
		}
	}
	text, err := json.Marshal(types)
	if err != nil {
		panic(err) // texts and booleans can be encoded
	}
	return strings.ReplaceAll(string(text), "'", "''")
}

func describe(all map[string]map[string]field, md protoreflect.MessageDescriptor) {
	members := map[string]field{}
	all[string(md.Name())] = members
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		f := field{Name: string(fd.Name()), Type: typeOf(fd)}
		if od := fd.ContainingOneof(); od != nil && !od.IsSynthetic() {
			f.OneOf = true
		}
		switch f.Type {
		case "enum":
			f.Words = words(fd.Enum())
		case "bytes": // data: any JSON, or base64
			members["data_base64"] = field{Name: f.Name, Type: "string"}
			members["dataBase64"] = members["data_base64"]
			members[f.Name] = field{Name: f.Name, Type: "any"}
			continue
		}
		members[f.Name], members[fd.JSONName()] = f, f
		if within := fd.Message(); within != nil && f.Type == string(within.Name()) && all[f.Type] == nil {
			describe(all, within)
		}
	}
}

// typeOf returns how a field is written, see [field]; "bytes" for those that have two forms.
func typeOf(fd protoreflect.FieldDescriptor) string {
	switch {
	case fd.Name() == "status":
		return "any" // set by the server, ignored
	case fd.IsMap():
		return "map"
	case fd.IsList():
		return "strings"
	}
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return string(fd.Message().Name())
	case protoreflect.EnumKind:
		return "enum"
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return "integer"
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return "natural"
	}
	return fd.Kind().String() // string, bool, double, bytes
}

// words returns what the values of an enum are called: "serial" of OVERLAP_SERIAL.
func words(ed protoreflect.EnumDescriptor) (all []string) {
	prefix := len(ed.Values().ByNumber(0).Name()) - len("UNSPECIFIED")
	for i := range ed.Values().Len() {
		if v := ed.Values().Get(i); v.Number() != 0 {
			all = append(all, strings.ToLower(string(v.Name())[prefix:]))
		}
	}
	return all
}
