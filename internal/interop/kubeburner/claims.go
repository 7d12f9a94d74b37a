package kubeburner

import (
	"encoding/json"
	"errors"
	"strings"
)

// volumes is the set of stages that binds claims, and volumesClass the class whose claims
// it binds by itself.
const (
	volumes      = "volumes"
	volumesClass = "windtunnel"
)

// claimSpec is what a claim, or a volume, says of where storage comes from.
type claimSpec struct {
	StorageClassName *string `json:"storageClassName"`
	VolumeName       string  `json:"volumeName"`
}

// claim is a PersistentVolumeClaim, or the template of one.
type claim struct {
	Spec claimSpec `json:"spec"`
}

// claims are those of a config's objects.
type claims struct {
	any     bool            // a claim is to be bound by a provisioner
	classes map[string]bool // that claims name
	static  map[string]bool // of volumes that the config makes itself: the plane binds these
}

// addObject takes the claims that an object is, or makes.
func (c *claims) addObject(object []byte) {
	var o sample
	var other *json.UnmarshalTypeError // a field that means something else in this kind
	if err := json.Unmarshal(object, &o); err != nil && !errors.As(err, &other) {
		return
	}
	pods := o.Spec.Template.Spec
	switch o.Kind {
	case "PersistentVolume":
		if name := o.Spec.StorageClassName; name != nil {
			setName(&c.static, *name)
		}
		return
	case "PersistentVolumeClaim":
		c.addClaim(o.Spec.claimSpec)
		return
	case "Pod":
		pods = o.Spec.podSpec
	}
	for _, one := range o.Spec.Claims {
		c.addClaim(one.Spec)
	}
	for _, v := range pods.Volumes {
		if v.Ephemeral.Claim != nil {
			c.addClaim(v.Ephemeral.Claim.Spec)
		}
	}
}

func (c *claims) addClaim(s claimSpec) {
	switch {
	case s.VolumeName != "":
	case s.StorageClassName == nil: // the default class
		c.any = true
	case *s.StorageClassName != "": // none: only a volume that somebody made is bound
		c.any = true
		setName(&c.classes, *s.StorageClassName)
	}
}

func setName(m *map[string]bool, name string) {
	if *m == nil {
		*m = map[string]bool{}
	}
	(*m)[name] = true
}

// bindClaims has the fleet bind the claims: nothing else on a plane without storage does.
func (im *importer) bindClaims() {
	if !im.claims.any {
		return
	}
	f := &im.out.Fleet
	f.Stages = []string{"fast", volumes}
	for _, name := range sortedKeys(im.claims.classes) {
		if name != volumesClass && !im.claims.static[name] {
			f.StorageClasses = append(f.StorageClasses, name)
		}
	}
	which := "of the default class"
	if len(f.StorageClasses) > 0 {
		which = "on " + strings.Join(f.StorageClasses, ", ")
	}
	im.addNote(0, "claims", "claims %s are bound to simulated volumes at once, whatever provisioner the class has", which)
}
