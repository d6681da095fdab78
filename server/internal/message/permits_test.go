package message_test

import (
	"testing"

	"github.com/carillonhq/carillon/server/internal/message"
)

func TestStampsOfALaterTermAreNewer(t *testing.T) {
	old, newer, later := message.Stamp{Epoch: 1, N: 8}, message.Stamp{Epoch: 1,
		N: 9}, message.Stamp{Epoch: 2, N: 1}
	for _, pair := range [][2]message.Stamp{{old, newer}, {newer, later}, {old, later}} {
		if pair[0].Compare(pair[1]) >= 0 || pair[1].Compare(pair[0]) <= 0 {
			t.Errorf("%v is not older than %v", pair[0], pair[1])
		}
	}
	if same := (message.Stamp{Epoch: 1, N: 8}); old.Compare(same) != 0 {
		t.Errorf("%v is not the same as %v", old, same)
	}
}
