// Prefetch: the snapshots of one device. It follows a Checkpointing, saves states and gives them
// back.
#ifndef GPUZIP_DROPIN_PREFETCH_PREFETCH_CUH
#define GPUZIP_DROPIN_PREFETCH_PREFETCH_CUH

#include "../Codec.hpp"
#include "../Compressor.hpp"
#include "../checkpointing/Checkpointing.hpp"
#include "Shape.hpp"

#include <cstdio>
#include <memory>
#include <string>

/// Internal: cudaStream_t points to it, with and without the CUDA headers.
struct CUstream_st;

/// Follows a schedule and keeps its snapshots. Every call throws GPUZIPError when it fails, and
/// leaves the object usable. Save and Retrieve are complete when they return.
class Prefetch {
 public:
  /// Internal: PrefetchBuilder calls it. Follows `checkpointing`, whose schedule this object keeps
  /// alive. If `shape` is not known, the first Save gives it.
  Prefetch(const gpuzip_config_t &config, const gpuzip_dropin::Shape &shape, int steps, const Checkpointing &checkpointing)
      : config_(GPUZIPLogger::Applied(gpuzip_dropin::published(config))), shape_(shape), schedule_(checkpointing.schedule_), session_(nullptr) {
    gpuzip_dropin::require(steps == checkpointing.GetSteps(), "PrefetchBuilder: steps differs from the Checkpointing's");
    config_.trace_file_path = nullptr;  // the Checkpointing has read the file
    config_.float_kind = nullptr;       // `shape` has the type
    if (shape_.known()) attach();
  }

  /// GPUZIP 2.x's own constructor, without a configuration: room for `snapshots` states of two
  /// fields of at most `field_bytes` bytes each, after compression, and a device cache of
  /// `cache_capacity` slots. The first Save gives the extents, the type and the compressor.
  Prefetch(int snapshots, int steps, std::size_t field_bytes, const Checkpointing *checkpointing, int cache_capacity)
      : Prefetch(bare(cache_capacity, checkpointing), gpuzip_dropin::Shape(GPUZIP_TYPE_F32), steps, *checkpointing) {
    without_configuration_ = true;
    snapshots_ = snapshots;
    field_bytes_ = field_bytes;
  }

  virtual ~Prefetch() {
    if (session_) gpuzip_finalize(session_);
  }

  Prefetch(const Prefetch &) = delete;
  Prefetch &operator=(const Prefetch &) = delete;

  /// Prepares a shot: moves the schedule back to before its first action and forgets all snapshots.
  /// Memory and plan are kept from shot to shot.
  void Setup() {
    if (!session_ && shape_.known()) attach();
    if (session_) gpuzip_dropin::check(gpuzip_setup(session_));
    schedule_->rewind();
  }

  /// Moves this object to action number `it`, which must be the current action of the schedule.
  /// Always returns true: failures are exceptions.
  bool Dispatch(int it) {
    if (session_) gpuzip_dropin::check(gpuzip_dispatch(session_, it));
    return true;
  }

  /// Saves u(ts). The current action must be ACTION_SAVE of `ts`. Always returns true: failures are
  /// exceptions.
  bool Save(int ts, Field_t *curr, Field_t *prev) { return Save(ts, curr, prev, nullptr, nullptr); }

  /// Saves u(ts) with GPUZIP 2.x's arguments for compressors. The configuration decides how
  /// snapshots are compressed; the compressors must be built with the same configuration, or be
  /// NULL. Without a configuration the compressors of the first Save decide.
  bool Save(int ts, Field_t *curr, Field_t *prev, Compressor<void, void> *comp, Compressor<void, void> *comp_prev) {
    if (without_configuration_ && !session_) adopt(comp);
    expect("Save", comp);
    expect("Save", comp_prev);
    if (!session_) attach_late(curr);
    follow();
    const Fields fields(shape_, curr, prev);
    gpuzip_dropin::check(gpuzip_save(session_, ts, fields.field, 2, nullptr));
    finish();
    return true;
  }

  /// Overwrites the memory of `curr` and `prev` with u(ts). The current action must be
  /// ACTION_RESTORE of `ts`. Without a GPU `stream` is 0. Always returns true: failures are
  /// exceptions.
  bool Retrieve(int ts, Field_t *curr, Field_t *prev, CUstream_st *stream = nullptr) {
    if (!session_) throw GPUZIPError(GPUZIP_ERR_STATE, "Retrieve: nothing is saved");
    follow();
    const Fields fields(shape_, curr, prev);
    gpuzip_dropin::check(gpuzip_retrieve(session_, ts, fields.field, 2, stream));
    finish();
    return true;
  }

  /// Retrieves u(ts) with GPUZIP 2.x's arguments for compressors, which are as for Save.
  bool Retrieve(int ts, Field_t *curr, Field_t *prev, Compressor<void, void> *comp, Compressor<void, void> *comp_prev,
                CUstream_st *stream = nullptr) {
    expect("Retrieve", comp);
    expect("Retrieve", comp_prev);
    return Retrieve(ts, curr, prev, stream);
  }

  /// Writes the statistics of the shot to stderr at log level INFO, so nothing if the level is WARN
  /// or ERROR.
  void Report() const {
    if (!session_ || GPUZIPLogger::Applied(config_).log_level > 1) return;
    gpuzip_stats_t s;
    s.struct_size = sizeof s;
    gpuzip_dropin::check(gpuzip_stats(session_, &s));
    typedef unsigned long long Count;
    std::fprintf(stderr,
                 "gpuzip: %llu forward and %llu backward steps, %llu saves (%llu written back), %llu restores (%llu hits, %llu prefetched, "
                 "%llu late), %.3f s waiting\n",
                 Count(s.forward_steps), Count(s.backward_steps), Count(s.saves), Count(s.d2h), Count(s.restores), Count(s.hits),
                 Count(s.prefetches), Count(s.late_prefetches), s.stall);
  }

  /// With `on` = true, Save and Retrieve on a GPU return at once and take effect in the order of
  /// their stream, which is faster. Not in GPUZIP 2.x.
  void Asynchronous(bool on) { asynchronous_ = on; }

  /// Frees all memory; the next Setup allocates it again.
  void Free() {
    gpuzip_t *session = session_;
    session_ = nullptr;
    if (session) gpuzip_dropin::check(gpuzip_finalize(session));
  }

 private:
  /// The fields of a state: curr, and prev as its previous time level.
  struct Fields {
    gpuzip_field_t field[2];
    explicit Fields(const gpuzip_dropin::Shape &shape) : field{shape.field(0), shape.field(1)} {}
    Fields(const gpuzip_dropin::Shape &shape, const Field_t *curr, const Field_t *prev) : field{shape.field(curr, 0), shape.field(prev, 1)} {}
  };

  void attach() {
    const Fields fields(shape_);
    gpuzip_dropin::check(gpuzip_attach(schedule_->handle(), &config_, fields.field, 2, &session_));
  }

  /// Attaches a session to the schedule at its first action; a later action is too late.
  void attach_late(const Field_t *curr) {
    if (schedule_->it() < 0) throw GPUZIPError(GPUZIP_ERR_STATE, "Save: before the first action");
    if (schedule_->it() > 0)
      throw GPUZIPError(GPUZIP_ERR_STATE, "Save: the sweep has begun without this Prefetch: call Setup after Free, and give PrefetchBuilder "
                                          "n1, n2 and n3 where the first action is no ACTION_SAVE");
    if (!shape_.known()) {
      gpuzip_dropin::require(curr != nullptr, "Save: curr is NULL");
      if (without_configuration_) shape_ = gpuzip_dropin::Shape(gpuzip_dropin::Shape::type_of(*curr));
      shape_.learn(*curr);
      if (without_configuration_) fits();
    }
    attach();
  }

  static gpuzip_config_t bare(int cache_capacity, const Checkpointing *checkpointing) {
    gpuzip_dropin::require(checkpointing != nullptr, "Prefetch: the Checkpointing is NULL");
    gpuzip_config_t config;
    // Not read: the Checkpointing has the schedule.
    config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
    config.cache_capacity = cache_capacity;
    config.log_level = GPUZIPLogger::GetLevel();
    return config;
  }

  /// Takes the configuration of the first Save's compressor, for an object without a configuration.
  void adopt(const Compressor<void, void> *comp) {
    const gpuzip_config_t *theirs = comp ? comp->Configuration() : nullptr;
    if (!theirs) return;
    const gpuzip_config_t own = config_;
    config_ = *theirs;
    config_.checkpointing_algorithm = own.checkpointing_algorithm;
    config_.cache_capacity = own.cache_capacity;
    config_.snapshot_rule = own.snapshot_rule;
    config_ = GPUZIPLogger::Applied(config_);
  }

  /// Throws if states need more room than GPUZIP 2.x's constructor was told; GPUZIP 2.x would write
  /// beyond its memory.
  void fits() {
    const int needed = schedule_->snapshots();
    const std::size_t bytes = shape_.bytes();
    const char *reason = nullptr;
    if (needed > snapshots_) reason = "the schedule stores more snapshots at a time than the Prefetch was built for";
    if (bytes > field_bytes_ && config_.compressor == GPUZIP_COMPRESSOR_NONE) reason = "a field has more bytes than the Prefetch was built for";
    if (!reason) return;
    shape_ = gpuzip_dropin::Shape(GPUZIP_TYPE_F32);
    throw GPUZIPError(GPUZIP_ERR_SHAPE, "Save: " + std::string(reason) + ": " + std::to_string(needed) + " snapshots and " +
                                            std::to_string(bytes) + " bytes where it has room for " + std::to_string(snapshots_) + " and " +
                                            std::to_string(field_bytes_));
  }

  /// Waits until Save and Retrieve are complete, as in GPUZIP 2.x, unless Asynchronous(true) was
  /// called.
  void finish() {
    if (!asynchronous_) gpuzip_dropin::check(gpuzip_synchronize(session_));
  }

  /// Moves the session to the current action: the application may call Save and Retrieve before
  /// Dispatch.
  void follow() {
    if (schedule_->it() >= 0) gpuzip_dropin::check(gpuzip_dispatch(session_, schedule_->it()));
  }

  /// Throws if `comp` differs from the session's codec. The session compresses curr and prev
  /// together, as its configuration says.
  void expect(const char *call, const Compressor<void, void> *comp) const {
    if (!comp) return;
    const gpuzip_config_t *theirs = comp->Configuration();
    if (!theirs)
      throw GPUZIPError(GPUZIP_ERR_UNSUPPORTED, std::string(call) + ": a Compressor of the application's own: give NULL and compressor = the "
                                                                    "number that gpuzip_codec_register gives for its codec");
    if (!gpuzip_dropin::same_codec(config_, *theirs))
      throw GPUZIPError(GPUZIP_ERR_CONFIG, std::string(call) + ": the Compressor was built with compressor = " + std::to_string(theirs->compressor) +
                                               ", this Prefetch with " + std::to_string(config_.compressor) +
                                               ", or their bounds differ: build both with one configuration");
  }

  gpuzip_config_t config_;
  gpuzip_dropin::Shape shape_;
  std::shared_ptr<gpuzip_dropin::Schedule> schedule_;
  gpuzip_t *session_;
  bool asynchronous_ = false;
  bool without_configuration_ = false;
  int snapshots_ = 0;             // room, if there is no configuration
  std::size_t field_bytes_ = 0;  // room for a field in bytes, if there is no configuration
};

/// A Prefetch without a device cache, or with one slot if snapshots are compressed.
class CheckpointOnly : public Prefetch {
 public:
  /// As GPUZIP 2.x's constructor of Prefetch. `compressed`: whether Save will be given compressors.
  CheckpointOnly(int snapshots, int steps, std::size_t field_bytes, const Checkpointing *checkpointing, bool compressed = false)
      : Prefetch(snapshots, steps, field_bytes, checkpointing, compressed ? 1 : 0) {}
};

#endif
