package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// odd are enums of attributes that are not named after their method.
var odd = map[string]string{"async_event_create": "ASYNC_EVENT_ALLOC", "destroy_flow_action_esp": "FLOW_ACTION_DESTROY"}

// methods writes each method with its attributes.
func methods(b *bytes.Buffer, enums []enum) error {
	attributes := make(map[string][]constant) // by the words of the method's name, sorted
	for _, e := range enums {
		if name, ok := strings.CutPrefix(e.name, "uverbs_attrs_"); ok {
			for _, suffix := range []string{"_cmd_attr_ids", "_attr_ids", "_ids", "_id", "_cmd"} {
				name = strings.TrimSuffix(name, suffix)
			}
			if to, ok := odd[name]; ok {
				name = to
			}
			attributes[words(name)] = e.consts
		}
	}
	fmt.Fprint(b, "var methods = []method{\n")
	for _, e := range enums {
		if !strings.HasPrefix(e.name, "uverbs_method") {
			continue
		}
		object, err := objectOf(e.name, enums)
		if err != nil {
			return err
		}
		for _, c := range e.consts {
			name := strings.TrimPrefix(c.name, "UVERBS_METHOD_")
			fmt.Fprintf(b, "{%#x, %#x, %q, []string{", object, c.value, name)
			for _, a := range attributes[words(name)] {
				fmt.Fprintf(b, "%#x: %q, ", a.value, strings.TrimPrefix(a.name, "UVERBS_ATTR_"))
			}
			fmt.Fprint(b, "}},\n")
			delete(attributes, words(name))
		}
	}
	fmt.Fprint(b, "}\n")
	for name := range attributes {
		return fmt.Errorf("no method has the attributes of %s", name)
	}
	return nil
}

// words returns a form that is equal for CREATE_CQ and CQ_CREATE.
func words(name string) string {
	all := strings.Split(strings.ToUpper(name), "_")
	slices.Sort(all)
	return strings.Join(all, " ")
}

// objectOf is the object that an enum of methods belongs to: the longest name in it.
func objectOf(name string, enums []enum) (uint64, error) {
	best := constant{}
	for _, e := range enums {
		for _, c := range e.consts {
			short, ok := strings.CutPrefix(c.name, "UVERBS_OBJECT_")
			if ok && strings.Contains(strings.ToUpper(name)+"_", "_"+short+"_") && len(c.name) > len(best.name) {
				best = c
			}
		}
	}
	if best.name == "" {
		return 0, fmt.Errorf("%s belongs to no object", name)
	}
	return best.value, nil
}
