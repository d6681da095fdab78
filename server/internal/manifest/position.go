package manifest

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// locate returns the node of the field that a path such as target.http.url or depends_on[1] names, or the
// innermost one around it that exists.
func locate(n *yaml.Node, path string) *yaml.Node {
	at := n
	for path != "" && n != nil {
		var inner *yaml.Node
		switch n = aliased(n); n.Kind {
		case yaml.MappingNode:
			inner, path = member(n, path, &at)
		case yaml.SequenceNode:
			inner, path = indexed(n, path)
			if inner != nil {
				at = inner
			}
		}
		n = inner
	}
	return at
}

// member returns the value of the key with which the path begins, and the rest of the path. at becomes the
// key.
func member(n *yaml.Node, path string, at **yaml.Node) (*yaml.Node, string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		rest, ok := strings.CutPrefix(path, n.Content[i].Value)
		if !ok || n.Content[i].Value == "" || rest != "" && rest[0] != '.' && rest[0] != '[' {
			continue
		}
		*at = n.Content[i]
		return n.Content[i+1], strings.TrimPrefix(rest, ".")
	}
	return nil, ""
}

func indexed(n *yaml.Node, path string) (*yaml.Node, string) {
	i := 0
	if _, err := fmt.Sscanf(path, "[%d]", &i); err != nil {
		return nil, ""
	}
	_, rest, _ := strings.Cut(path, "]")
	return element(n, i), strings.TrimPrefix(rest, ".")
}

// value returns the value of a key; nil if there is none.
func value(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// element returns an element of a list; nil if there is none.
func element(n *yaml.Node, i int) *yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode || i < 0 || i >= len(n.Content) {
		return nil
	}
	return n.Content[i]
}

func aliased(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
