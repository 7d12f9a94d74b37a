package workload

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
	"github.com/windtunnel/windtunnel/scenario"
)

// TargetOf returns what a call of a mix is for the load generator; selector is that of its
// collection.
func TargetOf(c *scenario.Call, selector string) load.Target {
	return load.Target{
		Verb: c.Verb, Subresource: c.Subresource, AllNamespaces: c.Namespace == "*", Patch: c.Patch, Selector: selector, FieldSelector: c.FieldSelector,
		Limit: c.Limit, ResourceVersion: c.ResourceVersion, Hold: time.Duration(c.Hold), Informer: informerForm(c.Informer), Propagation: c.Propagation,
	}
}

// informerForm returns how an informer gets what exists.
func informerForm(word string) informer.Form {
	switch word {
	case scenario.ListInformer:
		return informer.List
	case scenario.WatchListInformer:
		return informer.WatchList
	}
	return informer.None
}

// FillClient fills the number of a client into the selectors of a path.
func FillClient(path string, client int) string {
	return strings.ReplaceAll(path, url.QueryEscape(scenario.ClientMark), strconv.Itoa(client))
}

// RetryOf returns which calls the load generator sends again.
func RetryOf(r scenario.Retry) load.Retry {
	return load.Retry{Times: r.Times, Codes: r.Codes, Delay: time.Duration(r.Delay)}
}

// ExplainNotServed adds to an error of a kind or resource that the plane does not serve
// what can be done about it.
func ExplainNotServed(err error, group string) error {
	if errors.Is(err, discovery.ErrNotServed) && !BuiltIn(group) {
		return fmt.Errorf("%w: add its CustomResourceDefinition under crds: of the scenario", err)
	}
	return err
}
