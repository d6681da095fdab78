package delivery_test

import (
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

func TestALineIsReadFromItsParkedQueue(t *testing.T) {
	plain := delivery.Queue{Namespace: "n", Kind: "worker", Address: "mails"}
	line := delivery.Line{Limit: delivery.Limit{Namespace: "n", Key: "customer-7"}, Queue: plain}
	parked := line.Parked()
	if got, ok := parked.Line(); !ok || got != line {
		t.Errorf("%v is read as %v, %v, want %v", parked, got, ok, line)
	}
	if !parked.Limited() || parked.Plain() != plain {
		t.Errorf("%v is limited: %v, its plain queue is %v", parked, parked.Limited(), parked.Plain())
	}
	if _, ok := plain.Line(); ok || plain.Limited() || plain.Plain() != plain {
		t.Errorf("%v is no line, but is read as one", plain)
	}
}
