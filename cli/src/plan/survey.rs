//! Surveys: many shots on many ranks. The ranks of a node share its host memory, disk and links.

use gpuzip::predict::{Budgets, Profile};

/// A survey of independent shots. Each rank has a device of its own and computes one shot at a
/// time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Survey {
    /// Number of ranks in all.
    pub ranks: u32,
    /// Number of ranks per node.
    pub ranks_per_node: u32,
    /// Number of links between host and devices in one node. If there are more ranks than links,
    /// the ranks share the links evenly.
    pub links_per_node: u32,
    /// GB/s that a node's host memory reads and writes for all its ranks together; infinite if it is not
    /// known.
    pub host_gbs: f64,
    /// Number of shots.
    pub shots: u64,
}

impl Survey {
    /// One shot of one rank that has a node alone.
    pub const ONE: Survey = Survey {
        ranks: 1,
        ranks_per_node: 1,
        links_per_node: 1,
        host_gbs: f64::INFINITY,
        shots: 1,
    };

    /// Number of ranks on a full node.
    pub fn sharers(&self) -> u32 {
        self.ranks_per_node.min(self.ranks).max(1)
    }

    /// Number of nodes that the ranks take.
    pub fn nodes(&self) -> u32 {
        self.ranks.div_ceil(self.sharers())
    }

    /// Number of rounds in which the ranks compute all shots.
    pub fn rounds(&self) -> u64 {
        self.shots.div_ceil(self.ranks.max(1) as u64)
    }

    /// The profile and budgets that one rank has while all ranks of its node are at work. `profile`
    /// and `node` are those of a node with one rank. Each rank has its own device; the ranks share
    /// host memory, its bandwidth, disk and links. A transfer reads or writes host memory once; a copy of a
    /// state on a CPU, where `cpu` is true, does both.
    pub fn share(&self, profile: &Profile, node: Budgets, cpu: bool) -> (Profile, Budgets) {
        let sharers = self.sharers();
        let disk = 1.0 / sharers as f64;
        let link = (self.links_per_node as f64 / sharers as f64).min(1.0);
        let memory = self.host_gbs / sharers as f64;
        let [h2d_gbs, d2h_gbs] = [profile.h2d_gbs, profile.d2h_gbs].map(|gbs| gbs * link);
        let both_gbs = match profile.both_gbs * link {
            // Each direction is as fast as alone.
            0.0 if h2d_gbs + d2h_gbs <= memory => 0.0,
            0.0 => memory,
            both => both.min(memory),
        };
        let profile = Profile {
            h2d_gbs: h2d_gbs.min(memory),
            d2h_gbs: d2h_gbs.min(memory),
            both_gbs,
            d2d_gbs: profile.d2d_gbs.min(if cpu { memory / 2.0 } else { f64::INFINITY }),
            disk_read_gbs: (profile.disk_read_gbs * disk).min(memory),
            disk_write_gbs: (profile.disk_write_gbs * disk).min(memory),
            ..profile.clone()
        };
        (
            profile,
            Budgets { host: node.host / sharers as u64, disk: node.disk / sharers as u64, ..node },
        )
    }

    /// Seconds of the survey, if a shot takes `shot` seconds. In the last round, some ranks may be
    /// idle.
    pub fn seconds(&self, shot: f64) -> f64 {
        self.rounds() as f64 * shot
    }

    /// The fraction of the ranks' time that is spent on shots: less than 1 if ranks are idle in the
    /// last round.
    pub fn busy(&self) -> f64 {
        self.shots as f64 / (self.rounds() as f64 * self.ranks.max(1) as f64).max(1.0)
    }

    /// What the values of a survey count.
    pub fn meaning(&self) -> String {
        let shared = match self.sharers() {
            1 => String::new(),
            ranks => format!(
                "\nsharing efficiency: shots per hour of a node over {ranks} times those of a rank that has its host memory, links and disk\n\
                 alone, each with its best plan. The plan above is for a rank's share of these{}. Not counted: steps and codecs that slow one\n\
                 another down, as those of ranks on one CPU do; give the speeds that all ranks measure at the same time.",
                match self.host_gbs.is_finite() {
                    true => "",
                    false => ", and of --host-gbs if it is given",
                }
            ),
        };
        format!("ranks busy: the share of the ranks' time that is not spent idle in the last round of shots.{shared}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: Survey =
        Survey { ranks: 10, ranks_per_node: 4, links_per_node: 2, shots: 25, ..Survey::ONE };

    #[test]
    fn ranks_of_a_node_share_what_is_the_nodes() {
        assert_eq!((FOUR.nodes(), FOUR.rounds()), (3, 3));
        assert_eq!((FOUR.seconds(2.5), FOUR.busy()), (7.5, 25.0 / 30.0));
        let alone = Profile::typical_gpu(1 << 30);
        let (profile, budgets) =
            FOUR.share(&alone, Budgets { device: 10, host: 100, disk: 1000 }, false);
        assert_eq!(budgets, Budgets { device: 10, host: 25, disk: 250 });
        assert_eq!((profile.h2d_gbs, profile.d2h_gbs), (alone.h2d_gbs / 2.0, alone.d2h_gbs / 2.0));
        assert_eq!(
            (profile.disk_read_gbs, profile.forward_ms),
            (alone.disk_read_gbs / 4.0, alone.forward_ms)
        );
    }

    #[test]
    fn ranks_of_a_node_share_the_bandwidth_of_host_memory() {
        let alone = Profile { h2d_gbs: 40.0, d2h_gbs: 30.0, ..Profile::typical_gpu(1 << 30) };
        // A rank has half of a link: 20 and 15 GB/s.
        for (host_gbs, link) in [
            (160.0, [20.0, 15.0, 0.0]),
            (140.0, [20.0, 15.0, 0.0]),
            (100.0, [20.0, 15.0, 25.0]),
            (72.0, [18.0, 15.0, 18.0]),
            (40.0, [10.0, 10.0, 10.0]),
        ] {
            let (profile, _) = Survey { host_gbs, ..FOUR }.share(&alone, Budgets::NONE, false);
            assert_eq!([profile.h2d_gbs, profile.d2h_gbs, profile.both_gbs], link, "{host_gbs}");
            assert_eq!(profile.d2d_gbs, alone.d2d_gbs, "copies in device memory");
        }
        // Directions that take turns anyway.
        let turns = Profile { both_gbs: 34.0, ..alone.clone() };
        for (host_gbs, both) in [(100.0, 17.0), (40.0, 10.0)] {
            let (profile, _) = Survey { host_gbs, ..FOUR }.share(&turns, Budgets::NONE, false);
            assert_eq!(profile.both_gbs, both);
        }
        // A copy on a CPU reads and writes the memory.
        let (profile, _) = Survey { host_gbs: 40.0, ..FOUR }.share(&alone, Budgets::NONE, true);
        assert_eq!(profile.d2d_gbs, 5.0);
    }

    #[test]
    fn a_rank_of_its_own_shares_nothing() {
        let survey = Survey { ranks_per_node: 8, shots: 3, ..Survey::ONE };
        let (alone, node) =
            (Profile::typical_gpu(1 << 20), Budgets { device: 1, host: 2, disk: 3 });
        assert_eq!(survey.share(&alone, node, true), (alone, node));
        assert_eq!((survey.nodes(), survey.rounds(), survey.busy()), (1, 3, 1.0));
    }
}
