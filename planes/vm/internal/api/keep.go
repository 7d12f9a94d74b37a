package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
)

// unknown are the fields of an object that the plane does not know. They are written back as they
// were read: a status is written by several programs, of different releases.
type unknown map[string]json.RawMessage

// readKeeping reads the known fields of b into a struct, and returns the others; nil if there
// are none.
func readKeeping(b []byte, into any) (unknown, error) {
	if err := json.Unmarshal(b, into); err != nil {
		return nil, err
	}
	var all unknown
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, err
	}
	for name := range all {
		if isKnown(reflect.TypeOf(into).Elem(), name) {
			delete(all, name)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// writeKeeping writes a struct and what was kept beside it.
func writeKeeping(from any, kept unknown) ([]byte, error) {
	b, err := json.Marshal(from)
	if err != nil || len(kept) == 0 {
		return b, err
	}
	out := maps.Clone(kept)
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("write beside unknown fields: %w", err)
	}
	return json.Marshal(out)
}

// isKnown says whether a struct has a field of a JSON name.
func isKnown(t reflect.Type, name string) bool {
	for i := range t.NumField() {
		if known, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); known == name {
			return true
		}
	}
	return false
}

type (
	plainStatus          InstanceStatus
	plainCondition       Condition
	plainMigrationState  MigrationState
	plainMachineStatus   MachineStatus
	plainMigrationStatus MigrationStatus
)

// UnmarshalJSON reads what is known and keeps the rest.
func (s *InstanceStatus) UnmarshalJSON(b []byte) (err error) {
	*s = InstanceStatus{}
	s.kept, err = readKeeping(b, (*plainStatus)(s))
	return err
}

// MarshalJSON writes what is known and what was kept.
func (s InstanceStatus) MarshalJSON() ([]byte, error) { return writeKeeping(plainStatus(s), s.kept) }

// UnmarshalJSON reads what is known and keeps the rest.
func (c *Condition) UnmarshalJSON(b []byte) (err error) {
	*c = Condition{}
	c.kept, err = readKeeping(b, (*plainCondition)(c))
	return err
}

// MarshalJSON writes what is known and what was kept.
func (c Condition) MarshalJSON() ([]byte, error) { return writeKeeping(plainCondition(c), c.kept) }

// UnmarshalJSON reads what is known and keeps the rest.
func (s *MigrationState) UnmarshalJSON(b []byte) (err error) {
	*s = MigrationState{}
	s.kept, err = readKeeping(b, (*plainMigrationState)(s))
	return err
}

// MarshalJSON writes what is known and what was kept.
func (s MigrationState) MarshalJSON() ([]byte, error) {
	return writeKeeping(plainMigrationState(s), s.kept)
}

// UnmarshalJSON reads what is known and keeps the rest.
func (s *MachineStatus) UnmarshalJSON(b []byte) (err error) {
	*s = MachineStatus{}
	s.kept, err = readKeeping(b, (*plainMachineStatus)(s))
	return err
}

// MarshalJSON writes what is known and what was kept.
func (s MachineStatus) MarshalJSON() ([]byte, error) {
	return writeKeeping(plainMachineStatus(s), s.kept)
}

// UnmarshalJSON reads what is known and keeps the rest.
func (s *MigrationStatus) UnmarshalJSON(b []byte) (err error) {
	*s = MigrationStatus{}
	s.kept, err = readKeeping(b, (*plainMigrationStatus)(s))
	return err
}

// MarshalJSON writes what is known and what was kept.
func (s MigrationStatus) MarshalJSON() ([]byte, error) {
	return writeKeeping(plainMigrationStatus(s), s.kept)
}

// Unprocessed returns the status of an instance that nothing was done for yet: what the plane
// does not know, and the revision of its machine.
func (s InstanceStatus) Unprocessed() InstanceStatus {
	return InstanceStatus{kept: s.kept, VirtualMachineRevisionName: s.VirtualMachineRevisionName}
}
