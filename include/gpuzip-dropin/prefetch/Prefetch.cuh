// Prefetch: the snapshots of one device. It follows a Checkpointing, keeps the states it is given and gives them back.
#ifndef GPUZIP_DROPIN_PREFETCH_PREFETCH_CUH
#define GPUZIP_DROPIN_PREFETCH_PREFETCH_CUH

#include "../Codec.hpp"
#include "../Compressor.hpp"
#include "../checkpointing/Checkpointing.hpp"
#include "Shape.hpp"

#include <cstdio>
#include <memory>
#include <string>

struct CUstream_st;  // cudaStream_t is a pointer to it, with and without the CUDA headers

/// Every call throws GPUZIPError when it fails, and leaves the object usable. Save and Retrieve are done when they return.
class Prefetch {
 public:
  /// Follows `checkpointing`, which it keeps alive as far as it needs it. With an unknown `shape` it takes that of the first Save.
  Prefetch(const gpuzip_config_t &config, const gpuzip_dropin::Shape &shape, int steps, const Checkpointing &checkpointing)
      : config_(GPUZIPLogger::Applied(gpuzip_dropin::published(config))), shape_(shape), schedule_(checkpointing.schedule_), session_(nullptr) {
    gpuzip_dropin::require(steps == checkpointing.GetSteps(), "PrefetchBuilder: steps differs from the Checkpointing's");
    config_.trace_file_path = nullptr;  // the schedule has read it
    config_.float_kind = nullptr;       // the shape has it
    if (shape_.known()) attach();
  }

  /// GPUZIP 2.x's own constructor, without a configuration: room for `snapshots` states of two fields of at most `field_bytes` bytes each, as
  /// compressed, and a cache of `cache_capacity` slots. The first Save tells the extents, the type and the compressor.
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

  /// Prepares a shot: rewinds the schedule and forgets all snapshots. Memory and plan are kept from shot to shot.
  void Setup() {
    if (!session_ && shape_.known()) attach();
    if (session_) gpuzip_dropin::check(gpuzip_setup(session_));
    schedule_->rewind();
  }

  /// Follows the schedule to its action number `it`, which must be the current one. The result is always true: failures are exceptions.
  bool Dispatch(int it) {
    if (session_) gpuzip_dropin::check(gpuzip_dispatch(session_, it));
    return true;
  }

  /// Stores u(ts). The current action must be ACTION_SAVE of `ts`. The result is always true: failures are exceptions.
  bool Save(int ts, Field_t *curr, Field_t *prev) { return Save(ts, curr, prev, nullptr, nullptr); }

  /// The same. The configuration decides how snapshots are compressed; the compressors must be of the same one, or NULL. Without a
  /// configuration the compressors of the first Save decide.
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

  /// Overwrites the memory of `curr` and `prev` with u(ts). The current action must be ACTION_RESTORE of `ts`. Without a GPU `stream` is 0.
  /// The result is always true: failures are exceptions.
  bool Retrieve(int ts, Field_t *curr, Field_t *prev, CUstream_st *stream = nullptr) {
    if (!session_) throw GPUZIPError(GPUZIP_ERR_STATE, "Retrieve: nothing is saved");
    follow();
    const Fields fields(shape_, curr, prev);
    gpuzip_dropin::check(gpuzip_retrieve(session_, ts, fields.field, 2, stream));
    finish();
    return true;
  }

  /// The same, with compressors as for Save.
  bool Retrieve(int ts, Field_t *curr, Field_t *prev, Compressor<void, void> *comp, Compressor<void, void> *comp_prev,
                CUstream_st *stream = nullptr) {
    expect("Retrieve", comp);
    expect("Retrieve", comp_prev);
    return Retrieve(ts, curr, prev, stream);
  }

  /// Writes the statistics of the shot to stderr, at log level INFO: nothing if the level is WARN or ERROR.
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

  /// With `on`, Save and Retrieve on a GPU return at once and are only ordered on their stream, which is faster. Not in GPUZIP 2.x.
  void Asynchronous(bool on) { asynchronous_ = on; }

  /// Gives all memory back. A later Setup takes it again.
  void Free() {
    gpuzip_t *session = session_;
    session_ = nullptr;
    if (session) gpuzip_dropin::check(gpuzip_finalize(session));
  }

 private:
  /// curr, and prev as its previous time level.
  struct Fields {
    gpuzip_field_t field[2];
    explicit Fields(const gpuzip_dropin::Shape &shape) : field{shape.field(0), shape.field(1)} {}
    Fields(const gpuzip_dropin::Shape &shape, const Field_t *curr, const Field_t *prev) : field{shape.field(curr, 0), shape.field(prev, 1)} {}
  };

  void attach() {
    const Fields fields(shape_);
    gpuzip_dropin::check(gpuzip_attach(schedule_->handle(), &config_, fields.field, 2, &session_));
  }

  /// A session can join a schedule no later than at its first action.
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
    config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;  // not read: the Checkpointing has the schedule
    config.cache_capacity = cache_capacity;
    config.log_level = GPUZIPLogger::GetLevel();
    return config;
  }

  /// Without a configuration the first Save's compressor is the session's.
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

  /// What GPUZIP 2.x would have overrun: the room that its constructor was told to make.
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

  /// GPUZIP 2.x's promise: Save and Retrieve are done when they return.
  void finish() {
    if (!asynchronous_) gpuzip_dropin::check(gpuzip_synchronize(session_));
  }

  /// Save and Retrieve may come before the action's Dispatch.
  void follow() {
    if (schedule_->it() >= 0) gpuzip_dropin::check(gpuzip_dispatch(session_, schedule_->it()));
  }

  /// The session compresses curr and prev together, by the configuration: a compressor that would do otherwise is not passed over silently.
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
  int snapshots_ = 0;             // room, where there is no configuration
  std::size_t field_bytes_ = 0;  // likewise
};

/// A Prefetch without a cache, or with one slot where snapshots are compressed.
class CheckpointOnly : public Prefetch {
 public:
  CheckpointOnly(int snapshots, int steps, std::size_t field_bytes, const Checkpointing *checkpointing, bool compressed = false)
      : Prefetch(snapshots, steps, field_bytes, checkpointing, compressed ? 1 : 0) {}
};

#endif
