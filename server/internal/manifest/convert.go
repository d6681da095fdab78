package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// converter turns YAML into JSON. It keeps the order of fields and the spelling of numbers that JSON has as
// well, and writes out aliases and merged maps.
type converter struct {
	out    bytes.Buffer
	budget int        // of bytes, which aliases of aliases could multiply
	depth  int        // of nested values
	node   *yaml.Node // that is being converted
}

// maxDepth is how deep values may be nested.
const maxDepth = 100

func (c *converter) convert(n *yaml.Node) ([]byte, error) {
	err := c.value(n)
	return c.out.Bytes(), err
}

func (c *converter) value(n *yaml.Node) error {
	c.node = n
	if c.depth++; c.depth > maxDepth {
		return fmt.Errorf("values are nested more than %d deep", maxDepth)
	}
	defer func() { c.depth-- }()
	if c.out.Len() > c.budget {
		return errors.New("its aliases expand to too much")
	}
	switch n.Kind {
	case yaml.AliasNode:
		return c.value(n.Alias)
	case yaml.MappingNode:
		return c.mapping(n)
	case yaml.SequenceNode:
		return c.list(n)
	case yaml.ScalarNode:
		return c.scalar(n)
	}
	return errors.New("this cannot be read")
}

func (c *converter) list(n *yaml.Node) error {
	c.out.WriteByte('[')
	for i, e := range n.Content {
		if i > 0 {
			c.out.WriteByte(',')
		}
		if err := c.value(e); err != nil {
			return err
		}
	}
	c.out.WriteByte(']')
	return nil
}

func (c *converter) mapping(n *yaml.Node) error {
	pairs, err := c.pairs(n, 0)
	if err != nil {
		return err
	}
	c.out.WriteByte('{')
	for i, p := range pairs {
		if i > 0 {
			c.out.WriteByte(',')
		}
		c.text(p.key)
		c.out.WriteByte(':')
		if err := c.value(p.value); err != nil {
			return err
		}
	}
	c.out.WriteByte('}')
	return nil
}

type pair struct {
	key   string
	value *yaml.Node
}

// pairs returns the fields of a map: its own, and those of merged maps that it does not give itself.
func (c *converter) pairs(n *yaml.Node, depth int) (all []pair, err error) {
	if depth > maxDepth {
		return nil, errors.New("it is merged into itself")
	}
	given := make(map[string]bool)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := aliased(n.Content[i]), n.Content[i+1]
		c.node = key
		switch {
		case key.Kind != yaml.ScalarNode:
			return nil, errors.New("a key must be a text")
		case key.Tag == "!!merge":
			if value = aliased(value); value.Kind == yaml.SequenceNode {
				merged = append(merged, value.Content...)
			} else {
				merged = append(merged, value)
			}
			continue
		case given[key.Value]:
			return nil, fmt.Errorf("%.40s: given twice", key.Value)
		}
		given[key.Value] = true
		all = append(all, pair{key.Value, value})
	}
	for _, m := range merged {
		m = aliased(m)
		if c.node = m; m.Kind != yaml.MappingNode {
			return nil, errors.New("<<: only maps can be merged")
		}
		more, err := c.pairs(m, depth+1)
		if err != nil {
			return nil, err
		}
		for _, p := range more {
			if !given[p.key] {
				given[p.key] = true
				all = append(all, p)
			}
		}
	}
	return all, nil
}

func (c *converter) scalar(n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!null":
		c.out.WriteString("null")
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return errors.New("this is not true or false")
		}
		c.out.WriteString(strconv.FormatBool(b))
	case "!!int", "!!float":
		return c.number(n)
	case "!!str", "!!timestamp": // a time is written as it stands
		c.text(n.Value)
	default:
		return fmt.Errorf("a value of type %.40s has no form in JSON", n.Tag)
	}
	return nil
}

// number keeps a number's spelling if JSON has it: 1.50 stays 1.50.
func (c *converter) number(n *yaml.Node) error {
	if json.Valid([]byte(n.Value)) {
		c.out.WriteString(n.Value)
		return nil
	}
	var i int64
	if n.Decode(&i) == nil {
		c.out.WriteString(strconv.FormatInt(i, 10))
		return nil
	}
	var f float64
	if n.Decode(&f) != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return fmt.Errorf("%.40s is not a number that JSON has", n.Value)
	}
	c.out.WriteString(strconv.FormatFloat(f, 'g', -1, 64))
	return nil
}

func (c *converter) text(s string) {
	e := json.NewEncoder(&c.out)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // strings can always be encoded
	}
	c.out.Truncate(c.out.Len() - 1)
}
