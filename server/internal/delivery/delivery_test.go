package delivery_test

import (
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

func TestThePriorityGoesBeforeTheTime(t *testing.T) {
	urgent, early, late := delivery.Head{Priority: 0, Due: 9}, delivery.Head{Priority: 1,
		Due: 1}, delivery.Head{Priority: 1, Due: 2}
	for _, pair := range [][2]delivery.Head{{urgent, early}, {early, late}, {urgent, late}} {
		if pair[0].Compare(pair[1]) >= 0 || pair[1].Compare(pair[0]) <= 0 {
			t.Errorf("%v is not before %v", pair[0], pair[1])
		}
	}
	if same := late; late.Compare(same) != 0 {
		t.Errorf("%v is not level with itself", late)
	}
}
