package message_test

import (
	"errors"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

func TestAnotherTermIsFoundInItsError(t *testing.T) {
	err := message.OtherTerm(7, &message.OtherTermError{Term: store.Term{Epoch: 3, Nonce: 4}})
	other, ok := errors.AsType[*message.OtherTermError](err)
	if !ok || other.Term != (store.Term{Epoch: 3, Nonce: 4}) ||
		carillon.KindOf(err) != carillon.FailedPrecondition {
		t.Errorf("%v has term %v", err, other)
	}
}
