package server

import (
	"reflect"
	"testing"

	"github.com/carillonhq/carillon/server/internal/telemetry"
)

func TestEveryEventIsCounted(t *testing.T) {
	n := &Node{metrics: telemetry.New("v1")}
	engine := n.engineEvents()
	for _, events := range []any{engine, engine.Events, n.clusterEvents()} {
		for field, f := range reflect.ValueOf(events).Fields() {
			if f.Kind() == reflect.Func && f.IsNil() {
				t.Errorf("%T: nobody is told of %s", events, field.Name)
			}
		}
	}
}
