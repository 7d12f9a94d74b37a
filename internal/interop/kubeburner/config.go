package kubeburner

import "time"

// The types of a config are those of kube-burner v2, with the fields of v1 that
// its published workloads still have. What becomes of each field is declared in
// fates.go.

type config struct {
	MetricsEndpoints []endpoint `yaml:"metricsEndpoints"`
	Indexers         any        `yaml:"indexers"`
	Global           global     `yaml:"global"`
	Jobs             []job      `yaml:"jobs"`
}

type endpoint struct {
	At            string        `yaml:"-"`
	Endpoint      string        `yaml:"endpoint"`
	PrometheusURL string        `yaml:"prometheusURL"`
	Step          time.Duration `yaml:"step"`
	Token         string        `yaml:"token"`
	Username      string        `yaml:"username"`
	Password      string        `yaml:"password"`
	SkipTLSVerify bool          `yaml:"skipTLSVerify"`
	Alias         string        `yaml:"alias"`
	Metrics       []string      `yaml:"metrics"`
	Alerts        []string      `yaml:"alerts"`
	Indexer       indexer       `yaml:"indexer"`
}

type indexer struct {
	At                 string `yaml:"-"`
	Type               string `yaml:"type"`
	ESServers          any    `yaml:"esServers"`
	DefaultIndex       string `yaml:"defaultIndex"`
	InsecureSkipVerify bool   `yaml:"insecureSkipVerify"`
	MetricsDirectory   string `yaml:"metricsDirectory"`
	CreateTarball      bool   `yaml:"createTarball"`
	TarballName        string `yaml:"tarballName"`
}

type global struct {
	At                string        `yaml:"-"`
	Measurements      []measurement `yaml:"measurements"`
	RequestTimeout    time.Duration `yaml:"requestTimeout"`
	GC                bool          `yaml:"gc"`
	GCMetrics         bool          `yaml:"gcMetrics"`
	GCTimeout         time.Duration `yaml:"gcTimeout"`
	WaitWhenFinished  bool          `yaml:"waitWhenFinished"`
	ClusterHealth     bool          `yaml:"clusterHealth"`
	Timeout           time.Duration `yaml:"timeout"`
	FunctionTemplates []string      `yaml:"functionTemplates"`
	DeletionStrategy  string        `yaml:"deletionStrategy"`
	IndexerConfig     any           `yaml:"indexerConfig"`
	PrometheusURL     any           `yaml:"prometheusURL"`
	BearerToken       any           `yaml:"bearerToken"`
	MetricsProfile    any           `yaml:"metricsProfile"`
	AlertProfile      any           `yaml:"alertProfile"`
	WriteToFile       any           `yaml:"writeToFile"`
	MetricsDirectory  any           `yaml:"metricsDirectory"`
}

func (g *global) setDefaults() {
	g.RequestTimeout, g.Timeout, g.DeletionStrategy = time.Minute, 4*time.Hour, "default"
}

type measurement struct {
	At                string        `yaml:"-"`
	Name              string        `yaml:"name"`
	Thresholds        []threshold   `yaml:"thresholds"`
	Config            options       `yaml:"config"` // the same fields, where other versions have them
	PProfTargets      any           `yaml:"pprofTargets"`
	PProfInterval     time.Duration `yaml:"pprofInterval"`
	PProfDirectory    string        `yaml:"pprofDirectory"`
	NodeAffinity      any           `yaml:"nodeAffinity"`
	SvcTimeout        time.Duration `yaml:"svcTimeout"`
	SvcLatencyMetrics string        `yaml:"svcLatencyMetrics"`
	QuantilesIndexer  string        `yaml:"quantilesIndexer"`
	TimeseriesIndexer string        `yaml:"timeseriesIndexer"`
}

// options are a measurement's fields in their other place.
type options struct {
	At                string        `yaml:"-"`
	Thresholds        []threshold   `yaml:"thresholds"`
	PProfTargets      any           `yaml:"pprofTargets"`
	PProfInterval     time.Duration `yaml:"pprofInterval"`
	PProfDirectory    string        `yaml:"pprofDirectory"`
	SvcTimeout        time.Duration `yaml:"svcTimeout"`
	QuantilesIndexer  string        `yaml:"quantilesIndexer"`
	TimeseriesIndexer string        `yaml:"timeseriesIndexer"`
}

type threshold struct {
	At            string        `yaml:"-"`
	ConditionType string        `yaml:"conditionType"`
	Metric        string        `yaml:"metric"`
	Threshold     time.Duration `yaml:"threshold"`
}

type job struct {
	At                         string            `yaml:"-"`
	Name                       string            `yaml:"name"`
	JobType                    string            `yaml:"jobType"`
	JobIterations              int               `yaml:"jobIterations"`
	JobIterationDelay          time.Duration     `yaml:"jobIterationDelay"`
	JobPause                   time.Duration     `yaml:"jobPause"`
	Objects                    []object          `yaml:"objects"`
	Watchers                   []watcher         `yaml:"watchers"`
	QPS                        float64           `yaml:"qps"`
	Burst                      int               `yaml:"burst"`
	Namespace                  string            `yaml:"namespace"`
	MaxWaitTimeout             time.Duration     `yaml:"maxWaitTimeout"`
	WaitForDeletion            bool              `yaml:"waitForDeletion"`
	PodWait                    bool              `yaml:"podWait"`
	WaitWhenFinished           bool              `yaml:"waitWhenFinished"`
	Cleanup                    bool              `yaml:"cleanup"`
	NamespacedIterations       bool              `yaml:"namespacedIterations"`
	IterationsPerNamespace     int               `yaml:"iterationsPerNamespace"`
	PreCreateNamespaces        bool              `yaml:"preCreateNamespaces"`
	NamespaceDelay             time.Duration     `yaml:"namespaceDelay"`
	VerifyObjects              bool              `yaml:"verifyObjects"`
	ErrorOnVerify              bool              `yaml:"errorOnVerify"`
	PreLoadImages              bool              `yaml:"preLoadImages"`
	PreLoadPeriod              time.Duration     `yaml:"preLoadPeriod"`
	PreLoadNodeLabels          map[string]string `yaml:"preLoadNodeLabels"`
	NamespaceLabels            map[string]string `yaml:"namespaceLabels"`
	NamespaceAnnotations       map[string]string `yaml:"namespaceAnnotations"`
	ChurnConfig                churn             `yaml:"churnConfig"`
	SkipIndexing               bool              `yaml:"skipIndexing"`
	DefaultMissingKeysWithZero bool              `yaml:"defaultMissingKeysWithZero"`
	ExecutionMode              string            `yaml:"executionMode"`
	ExecutionGroup             string            `yaml:"executionGroup"`
	ObjectDelay                time.Duration     `yaml:"objectDelay"`
	ObjectWait                 bool              `yaml:"objectWait"`
	MetricsAggregate           bool              `yaml:"metricsAggregate"`
	MetricsClosing             string            `yaml:"metricsClosing"`
	GC                         bool              `yaml:"gc"`
	Measurements               []measurement     `yaml:"measurements"`
	IncrementalLoad            *incremental      `yaml:"incrementalLoad"`
	Hooks                      []hook            `yaml:"hooks"`

	// Of v1.
	BeforeCleanup string        `yaml:"beforeCleanup"`
	Churn         bool          `yaml:"churn"`
	ChurnCycles   int           `yaml:"churnCycles"`
	ChurnPercent  int           `yaml:"churnPercent"`
	ChurnDuration time.Duration `yaml:"churnDuration"`
	ChurnDelay    time.Duration `yaml:"churnDelay"`
	ChurnStrategy string        `yaml:"churnDeletionStrategy"`

	items  []item   // what its objects' templates make
	groups []string // of pods, where it has several
}

func (j *job) setDefaults() {
	j.JobType, j.JobIterations, j.IterationsPerNamespace = "create", 1, 1
	j.NamespacedIterations, j.WaitForDeletion, j.WaitWhenFinished, j.Cleanup = true, true, true, true
	j.VerifyObjects, j.ErrorOnVerify, j.PreLoadImages = true, true, true
	j.ChurnCycles, j.ChurnPercent, j.ChurnDuration, j.ChurnDelay = 100, 10, time.Hour, 5*time.Minute
}

type object struct {
	At                     string            `yaml:"-"`
	ObjectTemplate         string            `yaml:"objectTemplate"`
	Replicas               int               `yaml:"replicas"`
	InputVars              map[string]any    `yaml:"inputVars"`
	Kind                   string            `yaml:"kind"`
	APIVersion             string            `yaml:"apiVersion"`
	LabelSelector          map[string]string `yaml:"labelSelector"`
	PatchType              string            `yaml:"patchType"`
	Wait                   bool              `yaml:"wait"`
	WaitOptions            waitOptions       `yaml:"waitOptions"`
	RunOnce                bool              `yaml:"runOnce"`
	KubeVirtOp             string            `yaml:"kubeVirtOp"`
	Churn                  bool              `yaml:"churn"`
	Group                  group             `yaml:"group"`
	RepeatEveryNIterations int               `yaml:"repeatEveryNIterations"`
	NamespacesPerObject    int               `yaml:"namespacesPerObject"`    // an older name of repeatEveryNIterations
	SharingNamespacesCount int               `yaml:"SharingNamespacesCount"` // an older one still
}

func (o *object) setDefaults() {
	o.Replicas, o.Wait, o.Churn, o.RepeatEveryNIterations = 1, true, true, 1
}

type group struct {
	At            string        `yaml:"-"`
	ID            int           `yaml:"id"`
	GC            bool          `yaml:"gc"`
	PauseBeforeGC time.Duration `yaml:"pauseBeforeGC"`
	PauseAfterGC  time.Duration `yaml:"pauseAfterGC"`
}

type waitOptions struct {
	At                string            `yaml:"-"`
	APIVersion        string            `yaml:"apiVersion"`
	Kind              string            `yaml:"kind"`
	LabelSelector     map[string]string `yaml:"labelSelector"`
	CustomStatusPaths []statusPath      `yaml:"customStatusPaths"`
	ForCondition      string            `yaml:"forCondition"` // of v1
	CustomStatusPath  string            `yaml:"customStatusPath"`
}

type statusPath struct {
	At    string `yaml:"-"`
	Key   string `yaml:"key"`
	Value string `yaml:"value"`
}

type watcher struct {
	At            string            `yaml:"-"`
	Kind          string            `yaml:"kind"`
	APIVersion    string            `yaml:"apiVersion"`
	LabelSelector map[string]string `yaml:"labelSelector"`
	Replicas      int               `yaml:"replicas"`
}

func (w *watcher) setDefaults() { w.Replicas = 1 }

type churn struct {
	At               string        `yaml:"-"`
	Cycles           int           `yaml:"cycles"`
	Percent          int           `yaml:"percent"`
	Duration         time.Duration `yaml:"duration"`
	Delay            time.Duration `yaml:"delay"`
	DeleteDelay      time.Duration `yaml:"deleteDelay"`
	Mode             string        `yaml:"mode"`
	Type             string        `yaml:"type"` // an older name of mode
	DeletionStrategy string        `yaml:"deletionStrategy"`
}

func (c *churn) setDefaults() { c.Mode = "namespaces" }

type incremental struct {
	At                   string        `yaml:"-"`
	StartIterations      int           `yaml:"startIterations"`
	TotalIterations      int           `yaml:"totalIterations"`
	StepDelay            time.Duration `yaml:"stepDelay"`
	HealthCheckScript    string        `yaml:"healthCheckScript"`
	ScrapeMetricsPerStep bool          `yaml:"scrapeMetricsPerStep"`
	Pattern              pattern       `yaml:"pattern"`
}

type pattern struct {
	At          string       `yaml:"-"`
	Type        string       `yaml:"type"`
	Linear      *linear      `yaml:"linear"`
	Exponential *exponential `yaml:"exponential"`
}

type linear struct {
	At       string `yaml:"-"`
	MinSteps int    `yaml:"minSteps"`
	StepSize int    `yaml:"stepSize"`
}

type exponential struct {
	At          string  `yaml:"-"`
	Base        float64 `yaml:"base"`
	MaxIncrease int     `yaml:"maxIncrease"`
	WarmupSteps int     `yaml:"warmupSteps"`
}

type hook struct {
	At         string   `yaml:"-"`
	Cmd        []string `yaml:"cmd"`
	When       string   `yaml:"when"`
	Background bool     `yaml:"background"`
}
