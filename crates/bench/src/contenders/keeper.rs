//! lockkeeper itself, used as its users do.

use lockkeeper::{Guard, Keeper};

use super::{Client, Contender};
use crate::Result;

pub(super) async fn connect(url: &str) -> Result<Keeper> {
    Ok(Keeper::connect(url).await?)
}

impl Client for Keeper {
    type Contender = Holder;

    async fn contender(&self, name: &str) -> Result<Holder> {
        Ok(Holder {
            keeper: self.clone(),
            name: name.to_owned(),
            guard: None,
        })
    }
}

pub(crate) struct Holder {
    keeper: Keeper,
    name: String,
    guard: Option<Guard>,
}

impl Contender for Holder {
    async fn acquire(&mut self) -> Result<()> {
        self.guard = Some(self.keeper.lock(&self.name).acquire().await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        let guard = self.guard.take().ok_or("nothing is held")?;
        Ok(guard.release().await?)
    }
}
