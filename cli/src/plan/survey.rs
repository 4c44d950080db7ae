//! Surveys: many shots on many ranks. The ranks of a node share its host memory, disk and links.

use gpuzip::predict::{Budgets, Profile};

/// A survey of independent shots. Each rank has a device of its own and computes one shot at a
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Number of ranks in all.
    pub ranks: u32,
    /// Number of ranks per node.
    pub ranks_per_node: u32,
    /// Number of links between host and devices in one node. If there are more ranks than links,
    /// the ranks share the links evenly.
    pub links_per_node: u32,
    /// Number of shots.
    pub shots: u64,
}

impl Survey {
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
    /// host memory, disk and links.
    pub fn share(&self, profile: &Profile, node: Budgets) -> (Profile, Budgets) {
        let sharers = self.sharers();
        let disk = 1.0 / sharers as f64;
        let link = (self.links_per_node as f64 / sharers as f64).min(1.0);
        let profile = Profile {
            h2d_gbs: profile.h2d_gbs * link,
            d2h_gbs: profile.d2h_gbs * link,
            both_gbs: profile.both_gbs * link,
            disk_read_gbs: profile.disk_read_gbs * disk,
            disk_write_gbs: profile.disk_write_gbs * disk,
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
                 alone, each with its best plan. The plan above is for a rank's share of these. Not counted: steps, copies and codecs that\n\
                 slow one another down, as those of ranks on one CPU do; give the speeds that all ranks measure at the same time."
            ),
        };
        format!("ranks busy: the share of the ranks' time that is not spent idle in the last round of shots.{shared}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_node_share_what_is_the_nodes() {
        let survey = Survey { ranks: 10, ranks_per_node: 4, links_per_node: 2, shots: 25 };
        assert_eq!((survey.nodes(), survey.rounds()), (3, 3));
        assert_eq!((survey.seconds(2.5), survey.busy()), (7.5, 25.0 / 30.0));
        let alone = Profile::typical_gpu(1 << 30);
        let (profile, budgets) =
            survey.share(&alone, Budgets { device: 10, host: 100, disk: 1000 });
        assert_eq!(budgets, Budgets { device: 10, host: 25, disk: 250 });
        assert_eq!((profile.h2d_gbs, profile.d2h_gbs), (alone.h2d_gbs / 2.0, alone.d2h_gbs / 2.0));
        assert_eq!(
            (profile.disk_read_gbs, profile.forward_ms),
            (alone.disk_read_gbs / 4.0, alone.forward_ms)
        );
    }

    #[test]
    fn a_rank_of_its_own_shares_nothing() {
        let survey = Survey { ranks: 1, ranks_per_node: 8, links_per_node: 1, shots: 3 };
        let (alone, node) =
            (Profile::typical_gpu(1 << 20), Budgets { device: 1, host: 2, disk: 3 });
        assert_eq!(survey.share(&alone, node), (alone, node));
        assert_eq!((survey.nodes(), survey.rounds(), survey.busy()), (1, 3, 1.0));
    }
}
