package uverbs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestZeroValues calls every method of objects that nothing has created. None panics, and those that can fail do.
func TestZeroValues(t *testing.T) {
	for _, o := range []any{
		&uverbs.Device{}, &uverbs.PD{}, &uverbs.MR{}, &uverbs.MW{}, &uverbs.CQ{}, &uverbs.CompChannel{}, &uverbs.QP{}, &uverbs.SRQ{},
		&uverbs.XRCD{}, &uverbs.DM{}, &uverbs.DMAH{}, &uverbs.WQ{}, &uverbs.RWQIndTable{}, &uverbs.Flow{}, &uverbs.Counters{},
		&uverbs.Endpoint{}, &uverbs.AH{},
	} {
		typ := reflect.TypeOf(o)
		for i := range typ.NumMethod() {
			t.Run(fmt.Sprintf("%T.%s", o, typ.Method(i).Name), func(t *testing.T) { callZero(t, reflect.New(typ.Elem()).Method(i)) })
		}
	}
}

func callZero(t *testing.T, method reflect.Value) {
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v", p)
		}
	}()
	var args []reflect.Value
	for i := range method.Type().NumIn() {
		args = append(args, argument(method.Type().In(i)))
	}
	for _, result := range method.Call(args) {
		if result.Type() == reflect.TypeFor[error]() && result.IsNil() {
			t.Error("it succeeds")
		}
	}
}

// argument returns an argument that is valid where that is possible without an object.
func argument(t reflect.Type) reflect.Value {
	switch {
	case t == reflect.TypeFor[context.Context]():
		return reflect.ValueOf(context.Background())
	case t == reflect.TypeFor[*os.File]():
		return reflect.ValueOf(os.Stdin)
	case t == reflect.TypeFor[verbs.MWType]():
		return reflect.ValueOf(verbs.MWType1)
	case t == reflect.TypeFor[fmt.State]():
		return reflect.ValueOf(new(state))
	case t.Kind() == reflect.Slice:
		return reflect.MakeSlice(t, 1, 1)
	case t.Kind() == reflect.Pointer:
		return reflect.New(t.Elem())
	case reflect.TypeFor[int]().ConvertibleTo(t) && t.Kind() != reflect.String:
		return reflect.ValueOf(1).Convert(t)
	}
	return reflect.Zero(t)
}

// state is a fmt.State without flags.
type state struct{ bytes.Buffer }

func (*state) Width() (int, bool)     { return 0, false }
func (*state) Precision() (int, bool) { return 0, false }
func (*state) Flag(int) bool          { return false }
