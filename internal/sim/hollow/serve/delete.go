package serve

import (
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/backend"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// deleteObject deletes an object.
func (q *request) deleteObject() error {
	options, err := q.readDeleteOptions()
	if err != nil {
		return err
	}
	w := registry.Write{Target: q.Target, DryRun: len(options.DryRun) > 0}
	done, err := q.cluster.backend.Delete(w, options)
	if err != nil {
		return err
	}
	if done.Gone && !q.Kind.ShowDeleted {
		m := done.Metadata()
		q.writeStatus(&metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{
			Name: m.Name, Group: q.Kind.Group, Kind: q.Kind.Plural, UID: m.UID,
		}})
		return nil
	}
	return q.writeObject(http.StatusOK, done)
}

// readDeleteOptions reads the options of a deletion: the body's, or the query's.
func (q *request) readDeleteOptions() (*metav1.DeleteOptions, error) {
	o := &metav1.DeleteOptions{}
	raw, err := q.readBody()
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		values := q.query
		if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&values, o, nil); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	} else if err := q.decodeDeleteOptions(raw, o); err != nil {
		return nil, err
	}
	if errs := validation.ValidateDeleteOptions(o); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	return o, nil
}

func (q *request) decodeDeleteOptions(raw []byte, o *metav1.DeleteOptions) error {
	media, err := q.bodyType(true)
	if err != nil {
		return err
	}
	switch media {
	case typeProto:
		var inner []byte
		if inner, _, err = object.Unwrap(raw); err == nil {
			err = o.Unmarshal(inner)
		}
	case typeYAML:
		if raw, err = codec.ConvertYAML(raw); err == nil {
			err = json.Unmarshal(raw, o)
		}
	default:
		if err = codec.CheckHead(raw); err == nil {
			err = json.Unmarshal(raw, o)
		}
	}
	if err != nil {
		return codec.BadRequest(err)
	}
	return nil
}

// deleteCollection deletes what a list would show, and answers with it.
func (q *request) deleteCollection() error {
	options, err := q.readDeleteOptions()
	if err != nil {
		return err
	}
	found, err := q.findObjects()
	if err != nil {
		return err
	}
	for i, o := range found.Objects {
		if i%lookEvery == 0 && q.Context().Err() != nil {
			return backend.TimeoutError()
		}
		t := q.Target
		t.Namespace, t.Name = kind.SplitKey(o.Key)
		_, err := q.cluster.backend.Delete(registry.Write{Target: t, DryRun: len(options.DryRun) > 0}, options)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return q.writeList(page{Listed: store.Listed{Objects: found.Objects, Version: found.Version}})
}
