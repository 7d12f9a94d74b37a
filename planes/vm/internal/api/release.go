package api

// The presets of the plane's processes: releases of KubeVirt, beside HEAD (1.9) of August
// 2026, which is the default.
const (
	PresetV049 = "v0.49.1"
	PresetV044 = "v0.44.0"
)
